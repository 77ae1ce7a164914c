package pubsub

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

// answerGrace is how long after its expiry a pull request may be answered. After it the answer counts as lost.
const answerGrace = time.Second

// puller pulls messages for one slot, one at a time. It keeps its subscription: the client library subscribes for each
// request, and every new or removed subscription invalidates subject caches of the whole server. It is not safe for
// concurrent use.
type puller struct {
	nc      *nats.Conn
	api     string // prefix of the requests
	sub     *nats.Subscription
	inbox   string // prefix of the reply subjects
	answers chan *nats.Msg
	n       uint64 // of the request
	timeout *time.Timer
}

// answersRoom is how many answers a puller buffers: the requested message, and statuses.
const answersRoom = 4

func newPuller(js jetstream.JetStream) *puller {
	return &puller{nc: js.Conn(), api: natsio.APIPrefix(js)}
}

// close ends the subscription. Messages that arrive later are not received.
func (p *puller) close() {
	if p.sub != nil {
		_ = p.sub.Unsubscribe() // fails only on a closed connection
	}
	p.sub = nil
}

// pull requests one message and waits until it arrives or the request expires; without a message it returns nil. A
// message that arrives after the request was given up is not received: by then it may have been delivered to another
// worker.
func (p *puller) pull(consumer jetstream.Consumer, wait time.Duration) (jetstream.Msg, error) {
	reply, err := p.request(consumer, wait)
	if err != nil {
		return nil, fmt.Errorf("pubsub: request a message: %w", err)
	}
	if p.timeout == nil {
		p.timeout = time.NewTimer(wait + answerGrace)
	} else {
		p.timeout.Reset(wait + answerGrace)
	}
	defer p.timeout.Stop()
	for {
		select {
		case answer := <-p.answers:
			if msg, over, err := p.read(answer, reply); over {
				return msg, err
			}
		case <-p.timeout.C:
			return p.last(reply)
		}
	}
}

// read interprets an answer. over is false if the request is still pending.
func (p *puller) read(answer *nats.Msg, reply string) (msg jetstream.Msg, over bool, err error) {
	status := statusOf(answer)
	switch {
	case status == "":
		return delivered{answer}, true, nil
	case answer.Subject != reply || status == "100":
		return nil, false, nil // of an earlier request, or a heartbeat
	case status == "404" || status == "408":
		return nil, true, nil
	case status == "503":
		return nil, true, nats.ErrNoResponders
	}
	return nil, true, errors.New("pubsub: " + status + " " + answer.Header.Get("Description"))
}

// last gives up a request without an answer, but first reads what the server has sent until now: on a machine that
// stalls a message may be on its way, and a tool call whose delivery is lost waits for its AckWait, and if it is unsafe
// it may not be executed then.
func (p *puller) last(reply string) (jetstream.Msg, error) {
	_ = p.nc.FlushTimeout(answerGrace) // fails if the connection is lost, and then no message is on its way
	for len(p.answers) > 0 {
		if msg, over, err := p.read(<-p.answers, reply); over {
			return msg, err
		}
	}
	p.close()
	return nil, nil
}

// request sends a pull request and returns the subject of its statuses. A message arrives with its subject in the
// stream.
func (p *puller) request(consumer jetstream.Consumer, wait time.Duration) (reply string, err error) {
	if p.sub == nil {
		p.inbox, p.answers = natsio.NewInbox(p.nc)+".", make(chan *nats.Msg, answersRoom)
		if p.sub, err = p.nc.ChanSubscribe(p.inbox+"*", p.answers); err != nil {
			return "", err
		}
	}
	p.n++
	reply = p.inbox + strconv.FormatUint(p.n, 36)
	info := consumer.CachedInfo()
	request := append(strconv.AppendInt([]byte(`{"batch":1,"expires":`), int64(wait), 10), '}')
	return reply, p.nc.PublishRequest(p.api+"CONSUMER.MSG.NEXT."+info.Stream+"."+info.Name, reply, request)
}

// statusOf returns the code of a status message, "" for any other message.
func statusOf(m *nats.Msg) string {
	if len(m.Data) > 0 {
		return ""
	}
	return m.Header.Get("Status")
}
