package pubsub

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// DeadLetterOptions configures [DeadLetter].
type DeadLetterOptions struct {
	// Subjects is the grammar in use.
	Subjects schemas.Subjects
	// MaxDeliveries is the number of the last delivery: a message that fails then is given up.
	MaxDeliveries uint64
	// SessionOf returns the session in the subject of a message, "" if there is none.
	SessionOf func(subject string) string
	// Answer returns the messages to publish once a message is in AGENT_DEAD; nil means none.
	Answer func(m *message.Message) []*message.Message
	// Logger logs every dead letter; nil discards. The message's content is not logged.
	Logger *slog.Logger
}

// DeadLetter returns a Watermill middleware that stores a message in AGENT_DEAD when its last delivery fails, and
// returns no error, so that the message is acknowledged. If the letter cannot be stored the message is redelivered, so
// the consumer must have no delivery limit. It returns the error of earlier failures, of those that wrap [ErrClosed],
// and of messages that are not from a [Subscriber]. An inner middleware has to recover panics.
func DeadLetter(js jetstream.JetStream, o DeadLetterOptions) message.HandlerMiddleware {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			out, err := next(m)
			if err == nil {
				return out, nil
			}
			if err := bury(js, o, m, err); err != nil || o.Answer == nil {
				return nil, err
			}
			return o.Answer(m), nil
		}
	}
}

// bury returns nil if the message is in AGENT_DEAD, and otherwise the handler's error.
func bury(js jetstream.JetStream, o DeadLetterOptions, m *message.Message, cause error) error {
	raw, ok := RawMessage(m)
	stopping := errors.Is(cause, ErrClosed) || errors.Is(context.Cause(m.Context()), ErrClosed)
	if !ok || stopping { // a shutdown is no failure of the message
		return cause
	}
	md, err := raw.Metadata()
	if err != nil || md.NumDelivered < o.MaxDeliveries {
		return cause
	}
	// The message's own context may have ended already.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.Context()), publishTimeout)
	defer cancel()
	session := o.SessionOf(raw.Subject())
	if err := PublishDead(ctx, js, o.Subjects, NewDead(session, raw, cause.Error())); err != nil {
		return errors.Join(cause, err)
	}
	o.Logger.Warn("message given up", "stream", md.Stream, "seq", md.Sequence.Stream, "session", session,
		"deliveries", md.NumDelivered, "err", cause)
	return nil
}
