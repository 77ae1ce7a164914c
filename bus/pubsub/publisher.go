package pubsub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrClosed is wrapped by the errors of a Publisher or Subscriber that has been closed, and is the cause with which the
// contexts of messages end that were still being handled.
var ErrClosed = errors.New("closed")

// publishTimeout bounds the wait for the stream's acknowledgement of one message.
const publishTimeout = 5 * time.Second

// Publisher is a Watermill Publisher on JetStream: the topic is the subject, the message's UUID the Nats-Msg-Id, by
// which the stream drops repetitions within its duplicate window, whatever their subject. Metadata become headers under
// their own names, in one line each; names beginning with Nats- belong to the server and are left out. It may be used
// concurrently.
type Publisher struct {
	// Distrust stores a message again, under another id, of which the stream says that it has it: somebody else may have
	// taken the id. It is for messages that do no harm when they come twice. It must not be changed once in use.
	Distrust bool

	js       jetstream.JetStream
	mu       sync.RWMutex // read-locked while publishing
	isClosed bool
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a Publisher on the connection of js, which stays the caller's.
func NewPublisher(js jetstream.JetStream) *Publisher { return &Publisher{js: js} }

// Publish publishes the messages one after the other and returns once the last is stored. It stops at the first that
// is not acknowledged within five seconds or its context; that one may be stored nevertheless.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.isClosed {
		return fmt.Errorf("pubsub: publish to %s: publisher %w", topic, ErrClosed)
	}
	for i, m := range messages {
		if err := p.publish(topic, m); err != nil {
			return fmt.Errorf("pubsub: publish message %d of %d to %s: %w", i+1, len(messages), topic, err)
		}
	}
	return nil
}

func (p *Publisher) publish(topic string, m *message.Message) error {
	msg := &nats.Msg{Subject: topic, Data: m.Payload, Header: make(nats.Header, len(m.Metadata)+1)}
	for k, v := range m.Metadata {
		if !serverHeader(k) {
			msg.Header[k] = []string{v}
		}
	}
	msg.Header[jetstream.MsgIDHeader] = []string{m.UUID}
	ctx, cancel := context.WithTimeout(m.Context(), publishTimeout)
	defer cancel()
	ack, err := p.js.PublishMsg(ctx, msg)
	if err == nil && ack.Duplicate && p.Distrust {
		msg.Header[jetstream.MsgIDHeader] = []string{m.UUID + "/" + rand.Text()}
		_, err = p.js.PublishMsg(ctx, msg)
	}
	return err
}

// Close waits for what is being published; afterwards Publish is refused. The connection stays open.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isClosed = true
	return nil
}

// serverHeader reports whether a header is an instruction to the server, or the status that takes the place of a
// message: never to be passed on from one message to another.
func serverHeader(name string) bool {
	return name == "Status" || name == "Description" || len(name) >= 5 && strings.EqualFold(name[:5], "Nats-")
}
