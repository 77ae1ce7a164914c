package pubsub

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

type rawKey struct{}

// RawMessage returns the JetStream message of a message of a [Subscriber], with its subject, all of its headers, its
// sequence and delivery count. The caller must not acknowledge it: the Subscriber does. ok is false for any other
// message.
func RawMessage(m *message.Message) (raw jetstream.Msg, ok bool) {
	raw, ok = m.Context().Value(rawKey{}).(jetstream.Msg)
	return raw, ok
}

// newMessage converts a JetStream message to a Watermill message, which shares the payload. Its metadata hold the first
// value of each header. The id of a message without one is made of its stream and sequence, the same at every delivery.
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
