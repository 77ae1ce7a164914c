package pubsub

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

// pullAgain is the wait after a pull that failed.
const pullAgain = 250 * time.Millisecond

// subscription is a subscription of a Subscriber to a topic.
type subscription struct {
	*Subscriber
	topic   string
	turns   *turns
	out     chan *message.Message
	log     *slog.Logger
	failing atomic.Bool // the last pull has failed
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
		slots.Go(func() {
			if !s.slot(stop, work, consumer) {
				cancel()
			}
		})
	}
	slots.Wait()
	close(finished)
	watch.Wait()
}

// watch ends the pulling when the Subscriber is closed, and the work CloseTimeout later.
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

// slot delivers one message at a time until stop ends. It returns false if the connection was closed before that, so
// that no message will arrive any more.
func (s *subscription) slot(stop, work context.Context, consumer jetstream.Consumer) bool {
	p := newPuller(s.js)
	defer p.close()
	for {
		wait, ok := s.turns.take(stop)
		if !ok {
			return true
		}
		raw, err := p.pull(consumer, wait)
		if err == nil {
			s.failing.Store(false)
		}
		if raw != nil {
			s.turns.more()
			s.deliver(work, raw, consumer.CachedInfo().Config.AckWait)
			continue
		}
		s.turns.fewer()
		switch {
		case err == nil:
		case s.js.Conn().IsClosed():
			if !s.failing.Swap(true) && stop.Err() == nil {
				s.log.Error("connection closed before the subscriber", "err", err)
			}
			return false
		default:
			if !s.failing.Swap(true) {
				s.log.Warn("pull failed, trying again", "err", err)
			}
			consumer = s.again(stop, consumer)
		}
	}
}

// again waits a moment and returns the consumer of the topic, or the one before if that fails: it may exist again
// later.
func (s *subscription) again(stop context.Context, consumer jetstream.Consumer) jetstream.Consumer {
	if !natsio.Wait(stop, pullAgain) {
		return consumer
	}
	if found, err := s.opts.Consumer(stop, s.topic); err == nil {
		return found
	}
	return consumer
}
