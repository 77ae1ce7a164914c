package pubsub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

// ErrClosed is wrapped by the errors of a closed Publisher or Subscriber. It is the cause with which the contexts of
// messages are cancelled that are still at work after [SubscriberOptions.CloseTimeout].
var ErrClosed = errors.New("closed")

// publishTimeout bounds the wait for the stream's acknowledgement of one message.
const publishTimeout = 5 * time.Second

// Publisher is a Watermill Publisher on JetStream. The topic is the subject and the message's UUID the Nats-Msg-Id, by
// which the stream drops duplicates within its duplicate window, whatever their subject. Metadata become headers of the
// same names, except those that begin with Nats-, which are instructions to the server. It may be used concurrently.
type Publisher struct {
	// Distrust publishes a message again with another id if the stream reports a duplicate, because another client may
	// have used the id. It is for messages that may be delivered twice. It must not change after the first Publish.
	Distrust bool

	js       jetstream.JetStream
	mu       sync.RWMutex // read-locked while publishing
	isClosed bool
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a Publisher on the connection of js, which the caller keeps.
func NewPublisher(js jetstream.JetStream) *Publisher { return &Publisher{js: js} }

// Publish publishes the messages in order and returns once the last one is stored. It stops at the first message that
// is not acknowledged in five seconds or before the message's context ends; that message may have been stored
// nevertheless.
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
		if !natsio.Instructs(k) {
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

// Close waits for calls of Publish under way. Later calls fail with [ErrClosed]. The connection stays open.
func (p *Publisher) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isClosed = true
	return nil
}
