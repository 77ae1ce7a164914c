package natsio

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// pullRequests is how many pull requests of a consumption are pending: one delivers while the other is renewed.
const pullRequests = 2

// errNoHeartbeat is the reason of a consumption whose server, or consumer, is lost.
var errNoHeartbeat = errors.New("the consumer sends no heartbeats")

// PullOptions configure [Consume]. All fields are required.
type PullOptions struct {
	Messages  int           // limit of one pull request; two are pending at once
	Bytes     int           // limit of one pull request, larger than every message
	Expiry    time.Duration // after which a pull request is renewed, at least twice the heartbeat
	Heartbeat time.Duration // a consumer that sends nothing for twice as long is lost
}

// Consume has deliver called with the messages of a pull consumer, in their order, and lost once with the reason why
// the server will deliver no more. Neither is called after stop has returned, except a call under way.
//
// The Consume method of nats.go takes a stored message without payload that has the header of a status for a status of
// the consumer. It ends, or swallows the message, which is then in flight for ever: whoever may store a message would
// keep all others from being delivered. Here a message is what has a reply subject for its acknowledgement, which no
// status has.
func Consume(js jetstream.JetStream, stream, consumer string, o PullOptions, deliver func(*nats.Msg),
	lost func(error)) (stop func(), err error) {
	c := &consumption{nc: js.Conn(), o: o, deliver: deliver, lost: lost, pending: map[string]*pull{},
		subject: APIPrefix(js) + "CONSUMER.MSG.NEXT." + stream + "." + consumer, inbox: NewInbox(js.Conn())}
	c.request, err = json.Marshal(map[string]any{"expires": o.Expiry, "batch": o.Messages, "max_bytes": o.Bytes,
		"idle_heartbeat": o.Heartbeat})
	if err != nil {
		return nil, err
	}
	c.silence = time.AfterFunc(2*o.Heartbeat, c.silent)
	sub, err := c.nc.Subscribe(c.inbox+".*", c.receive)
	if err != nil {
		c.end(nil)
		return nil, err
	}
	stop = func() {
		c.end(nil)
		_ = sub.Unsubscribe() // it fails only if the connection is closed
	}
	if err := errors.Join(sub.SetPendingLimits(-1, -1), c.renew()); err != nil { // the requests bound what is pending
		stop()
		return nil, err
	}
	return stop, nil
}

// consumption is a call of [Consume].
type consumption struct {
	nc             *nats.Conn
	o              PullOptions
	deliver        func(*nats.Msg)
	lost           func(error)
	subject, inbox string
	request        []byte

	mu      sync.Mutex
	ended   bool
	made    int
	pending map[string]*pull // by the last token of the reply subject
	silence *time.Timer      // ends the consumption
}

// pull is a pull request that the server has not answered in full.
type pull struct {
	left   int // messages
	expiry *time.Timer
}

// receive takes what the server has sent. It is called by one goroutine.
func (c *consumption) receive(m *nats.Msg) {
	token := strings.TrimPrefix(m.Subject, c.inbox+".")
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.silence.Stop()
	p := c.pending[token]
	c.mu.Unlock()
	defer c.listen()
	var err error
	switch {
	case m.Reply != "":
		c.deliver(m)
		if p == nil {
			return
		}
		if p.left--; p.left == 0 {
			err = c.answered(token)
		}
	case m.Header.Get("Status") == "100": // a heartbeat
	case isAnswered(m.Header):
		err = c.answered(token)
	default:
		err = lostBy(m)
	}
	if err != nil {
		c.end(err)
	}
}

// listen expects the next heartbeat. It is called once a message has been delivered, which may take long.
func (c *consumption) listen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.silence.Reset(2 * c.o.Heartbeat)
	}
}

// silent ends the consumption, unless nothing can be heard while the connection is lost.
func (c *consumption) silent() {
	if c.nc.IsReconnecting() {
		c.listen()
		return
	}
	c.end(errNoHeartbeat)
}

// isAnswered reports whether a status ends a single pull request: it has expired, or its limits are reached.
func isAnswered(status nats.Header) bool {
	description := strings.ToLower(status.Get("Description"))
	return status.Get("Status") == "408" || status.Get("Status") == "409" &&
		(strings.Contains(description, "batch completed") || strings.Contains(description, "exceeds maxbytes"))
}

// answered renews a pull request.
func (c *consumption) answered(token string) error {
	c.mu.Lock()
	if p := c.pending[token]; p != nil {
		p.expiry.Stop()
		delete(c.pending, token)
	}
	c.mu.Unlock()
	return c.renew()
}

// renew sends pull requests until there are as many as there should be.
func (c *consumption) renew() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	for len(c.pending) < pullRequests {
		c.made++
		token := strconv.Itoa(c.made)
		if err := c.nc.PublishRequest(c.subject, c.inbox+"."+token, c.request); err != nil {
			return err
		}
		// The server says when a request has expired. That, or the request, may have been lost with a leader.
		c.pending[token] = &pull{left: c.o.Messages, expiry: time.AfterFunc(c.o.Expiry+2*c.o.Heartbeat, func() {
			if err := c.answered(token); err != nil {
				c.end(err)
			}
		})}
	}
	return nil
}

// end ends the consumption because of why; nil if it was stopped.
func (c *consumption) end(why error) {
	c.mu.Lock()
	ended := c.ended
	c.ended = true
	c.silence.Stop()
	for _, p := range c.pending {
		p.expiry.Stop()
	}
	c.mu.Unlock()
	if why != nil && !ended {
		c.lost(why)
	}
}
