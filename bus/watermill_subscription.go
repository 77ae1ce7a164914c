package bus

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

// subscription is one topic of a Subscriber while it is subscribed to.
type subscription struct {
	*Subscriber
	topic string
	out   chan *message.Message
	log   *slog.Logger
}

// run pulls in every slot until ctx ends or the Subscriber closes, and closes out once the last message is settled.
func (s *subscription) run(ctx context.Context, consumer jetstream.Consumer) {
	defer close(s.out)
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	work, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)

	finished := make(chan struct{})
	var watch, slots sync.WaitGroup
	watch.Go(func() { s.watch(stop, cancel, kill, finished) })
	for range s.opts.Concurrency {
		slots.Go(func() { s.slot(stop, work, consumer) })
	}
	slots.Wait()
	close(finished)
	watch.Wait()
}

// watch ends the pulling when the Subscriber closes, and the work when CloseTimeout is over after that.
func (s *subscription) watch(stop context.Context, cancel context.CancelFunc, kill context.CancelCauseFunc,
	finished <-chan struct{},
) {
	select {
	case <-s.closing:
	case <-stop.Done():
	case <-finished:
		return
	}
	cancel()
	timeout := time.NewTimer(s.opts.CloseTimeout)
	defer timeout.Stop()
	select {
	case <-timeout.C:
		kill(ErrClosed)
	case <-finished:
	}
}

// slot handles one message at a time. An iterator that fails is made anew, and so is the consumer, which somebody may
// have deleted; the first failure of a row is logged.
func (s *subscription) slot(stop, work context.Context, consumer jetstream.Consumer) {
	failing := false
	for stop.Err() == nil {
		delivered, err := s.pull(stop, work, consumer)
		switch {
		case stop.Err() != nil:
			return
		case s.js.Conn().IsClosed(): // for good: nothing will ever come again
			s.log.Error("the connection was closed before the subscriber", "err", err)
			return
		}
		if delivered {
			failing = false
		}
		if !failing {
			s.log.Warn("pulling messages is interrupted, trying again", "err", err)
			failing = true
		}
		if !wait(stop, retryWait) {
			return
		}
		if again, err := s.consumer(stop, s.topic); err == nil {
			consumer = again
		}
	}
}

// pull delivers messages until the iterator fails or stop ends; then it gives back what has arrived meanwhile. An
// iterator of one message asks for the next only when it is asked for it, so that none waits here for a slot.
func (s *subscription) pull(stop, work context.Context, c jetstream.Consumer) (delivered bool, err error) {
	opts := append([]jetstream.PullMessagesOpt{jetstream.PullMaxMessages(1), jetstream.PullHeartbeat(pullHeartbeat)},
		s.opts.Pull...)
	it, err := c.Messages(opts...)
	if err != nil {
		return false, err
	}
	defer it.Stop()
	defer context.AfterFunc(stop, func() {
		if s.js.Conn().IsConnected() {
			it.Drain()
		} else { // there is nobody to drain from
			it.Stop()
		}
	})()
	ackWait := c.CachedInfo().Config.AckWait
	for {
		msg, err := next(work, it)
		if err != nil {
			return delivered, err
		}
		delivered = true
		s.deliver(stop, work, msg, ackWait)
	}
}

// next waits for a message. It asks again after a moment: nats.go overlooks that it has to send a pull request if the
// message before came while it was still busy with the request for that one, and looks again only when asked. The waits
// grow, because a missing heartbeat of the server is noticed only within one.
func next(work context.Context, it jetstream.MessagesContext) (jetstream.Msg, error) {
	for wait := time.Millisecond; wait <= 10*time.Second; wait *= 10 {
		ctx, cancel := context.WithTimeout(work, wait)
		msg, err := it.Next(jetstream.NextContext(ctx))
		cancel()
		if work.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return msg, err
		}
	}
	return it.Next(jetstream.NextContext(work))
}

// deliver hands a message over and settles it as it is answered, telling the server meanwhile that it is in progress.
func (s *subscription) deliver(stop, work context.Context, raw jetstream.Msg, ackWait time.Duration) {
	if stop.Err() != nil {
		s.settled(raw, "give back", raw.Nak())
		return
	}
	ctx, cancel := context.WithCancelCause(work)
	defer cancel(nil)
	msg := newMessage(ctx, raw)
	beat := time.NewTicker(max(ackWait/3, time.Millisecond))
	defer beat.Stop()
	out, stopped := s.out, stop.Done()
	for {
		select {
		case out <- msg:
			out, stopped = nil, nil
		case <-beat.C:
			s.settled(raw, "report progress", raw.InProgress())
		case <-msg.Acked():
			cancel(nil)
			s.settled(raw, "acknowledge", s.ack(raw))
			return
		case <-msg.Nacked():
			cancel(nil)
			s.settled(raw, "refuse", s.nack(raw))
			return
		case <-stopped:
			s.settled(raw, "give back", raw.Nak())
			return
		case <-work.Done():
			cancel(context.Cause(work)) // it reaches ctx by itself, but maybe after the deferred cancel
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
	if s.opts.MaxDeliveries > 0 && md.NumDelivered >= s.opts.MaxDeliveries {
		return raw.TermWithReason("given up after the last delivery allowed")
	}
	if delay := s.opts.NackDelay(md.NumDelivered); delay > 0 {
		return raw.NakWithDelay(delay)
	}
	return raw.Nak()
}

// settled logs what could not be told to the server: the message will come again after its AckWait.
func (s *subscription) settled(raw jetstream.Msg, what string, err error) {
	if err != nil {
		s.log.Warn("message will be delivered again", "action", what, "subject", raw.Subject(), "err", err)
	}
}
