package pubsub

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// heartbeatEvery is the longest time between two heartbeats for a message; a third of the consumer's ack wait if that
// is shorter. It does not grow with the ack wait, because another client may shorten that at any time.
const heartbeatEvery = time.Second

// deliver passes a message to the subscription's reader and settles it as the reader does. Until then it sends
// heartbeats to the server.
func (s *subscription) deliver(work context.Context, raw jetstream.Msg, ackWait time.Duration) {
	ctx, cancel := context.WithCancelCause(work)
	defer cancel(nil)
	msg := newMessage(ctx, raw)
	heartbeat := time.NewTicker(min(max(ackWait/3, time.Millisecond), heartbeatEvery))
	defer heartbeat.Stop()
	out := s.out
	for {
		select {
		case out <- msg:
			out = nil
		case <-heartbeat.C:
			s.settled(raw, "report progress", raw.InProgress())
		case <-msg.Acked():
			cancel(nil)
			s.settled(raw, "acknowledge", s.ack(raw))
			return
		case <-msg.Nacked():
			cancel(nil)
			s.settled(raw, "refuse", s.nack(raw))
			return
		case <-work.Done():
			cancel(context.Cause(work)) // ctx ends with work, but its cause could be that of the deferred cancel
			s.settled(raw, "give back", raw.Nak())
			return
		}
	}
}

func (s *subscription) ack(raw jetstream.Msg) error {
	if !s.opts.ConfirmAck {
		return raw.Ack()
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	return raw.DoubleAck(ctx)
}

func (s *subscription) nack(raw jetstream.Msg) error {
	md, err := raw.Metadata()
	if err != nil {
		return errors.Join(err, raw.Nak())
	}
	if delay := s.opts.NackDelay(md.NumDelivered); delay > 0 {
		return raw.NakWithDelay(delay)
	}
	return raw.Nak()
}

// settled logs an ack or nak that did not reach the server: the message is redelivered after its AckWait.
func (s *subscription) settled(raw jetstream.Msg, what string, err error) {
	if err != nil {
		s.log.Warn("message will be redelivered", "action", what, "subject", raw.Subject(), "err", err)
	}
}
