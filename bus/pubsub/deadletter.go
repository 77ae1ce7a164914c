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
	// MaxDeliveries is the delivery whose failure is the last one.
	MaxDeliveries uint64
	// SessionOf finds the session in the subject a message is stored under; "" if there is none.
	SessionOf func(subject string) string
	// Logger records every dead letter; nil discards. The message's content is not logged.
	Logger *slog.Logger
}

// DeadLetter returns a Watermill middleware that stores a message in AGENT_DEAD when it fails at its last delivery, and
// then has it acknowledged. If the letter cannot be stored the message stays where it is, to be delivered once more, so
// the consumer must have no limit of its own. Failures before that pass on, as do those that wrap [ErrClosed], and
// messages that are not from a [Subscriber]. Panics have to be recovered further in.
func DeadLetter(js jetstream.JetStream, o DeadLetterOptions) message.HandlerMiddleware {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(m *message.Message) ([]*message.Message, error) {
			out, err := next(m)
			if err == nil {
				return out, nil
			}
			if err := bury(js, o, m, err); err != nil {
				return nil, err
			}
			return nil, nil
		}
	}
}

// bury returns nil if the message is in AGENT_DEAD, or what the handler said.
func bury(js jetstream.JetStream, o DeadLetterOptions, m *message.Message, cause error) error {
	raw, ok := RawMessage(m)
	stopping := errors.Is(cause, ErrClosed) || errors.Is(context.Cause(m.Context()), ErrClosed)
	if !ok || stopping { // to be cut off by our own stopping is no fault of the message
		return cause
	}
	md, err := raw.Metadata()
	if err != nil || md.NumDelivered < o.MaxDeliveries {
		return cause
	}
	// The message's own context may be what ended the handling.
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
