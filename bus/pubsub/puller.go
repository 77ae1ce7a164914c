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

// answerGrace is how much longer than it waits a pull request may take to be answered. Then its answer is lost.
const answerGrace = time.Second

// puller asks for messages, one at a time, for one slot. Its subscription lasts: one for each request, as the client
// library makes it, is work for the whole server, which has to look subjects up anew whenever a subscription comes or
// goes. It is not safe for concurrent use.
type puller struct {
	nc      *nats.Conn
	api     string // prefix of the requests
	sub     *nats.Subscription
	inbox   string // answers come below it
	answers chan *nats.Msg
	n       uint64 // of the request
	timeout *time.Timer
}

// answersRoom is how many messages may wait in a puller: the one that was asked for and a word of the server about it.
const answersRoom = 4

func newPuller(js jetstream.JetStream) *puller {
	return &puller{nc: js.Conn(), api: natsio.APIPrefix(js)}
}

// close gives the subscription up, with what may still come.
func (p *puller) close() {
	if p.sub != nil {
		_ = p.sub.Unsubscribe() // fails only on a closed connection
	}
	p.sub = nil
}

// pull asks for one message and waits until it comes or the server says that none has. A message that comes when nobody
// waits for an answer any more is not taken: by then it may be another worker's.
func (p *puller) pull(consumer jetstream.Consumer, wait time.Duration) (jetstream.Msg, error) {
	reply, err := p.ask(consumer, wait)
	if err != nil {
		return nil, fmt.Errorf("pubsub: ask for a message: %w", err)
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

// read looks at an answer. over is false if it is none to the request.
func (p *puller) read(answer *nats.Msg, reply string) (msg jetstream.Msg, over bool, err error) {
	status := statusOf(answer)
	switch {
	case status == "":
		return delivered{answer}, true, nil
	case answer.Subject != reply || status == "100":
		return nil, false, nil // of a request that has been answered, or no answer
	case status == "404" || status == "408":
		return nil, true, nil
	case status == "503":
		return nil, true, nats.ErrNoResponders
	}
	return nil, true, errors.New("pubsub: " + status + " " + answer.Header.Get("Description"))
}

// last gives a request up that has had no answer in time. What the server has sent until now is taken first: on a
// machine that stalls it may be on its way, and a call whose delivery was lost waits for its AckWait, and may not be
// begun then.
func (p *puller) last(reply string) (jetstream.Msg, error) {
	_ = p.nc.FlushTimeout(answerGrace) // fails where the connection is lost, and then nothing is on its way
	for len(p.answers) > 0 {
		if msg, over, err := p.read(<-p.answers, reply); over {
			return msg, err
		}
	}
	p.close()
	return nil, nil
}

// ask sends a request and returns the subject of its answer. A message comes under the subject that it has in the
// stream.
func (p *puller) ask(consumer jetstream.Consumer, wait time.Duration) (reply string, err error) {
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

// statusOf is the status that the server sends in the place of a message, "" if it is a message.
func statusOf(m *nats.Msg) string {
	if len(m.Data) > 0 {
		return ""
	}
	return m.Header.Get("Status")
}
