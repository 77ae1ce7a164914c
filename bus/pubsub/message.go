package pubsub

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

type rawKey struct{}

// RawMessage returns the JetStream message behind a message of a [Subscriber]: its subject, all its headers, its
// sequence and delivery count. Acknowledging it is the Subscriber's business. ok is false for any other message.
func RawMessage(m *message.Message) (raw jetstream.Msg, ok bool) {
	raw, ok = m.Context().Value(rawKey{}).(jetstream.Msg)
	return raw, ok
}

// newMessage turns a JetStream message into a Watermill message. The payload is shared. Metadata hold the first value
// of each header; a message without an id gets one made of where it is stored, the same at every delivery.
func newMessage(ctx context.Context, raw jetstream.Msg) *message.Message {
	header := raw.Headers()
	id := header.Get(jetstream.MsgIDHeader)
	if id == "" {
		if md, err := raw.Metadata(); err == nil {
			id = fmt.Sprintf("%s:%d", md.Stream, md.Sequence.Stream)
		}
	}
	m := message.NewMessage(id, raw.Data())
	for k, v := range header {
		if len(v) > 0 {
			m.Metadata[k] = v[0]
		}
	}
	m.SetContext(context.WithValue(ctx, rawKey{}, raw))
	return m
}
