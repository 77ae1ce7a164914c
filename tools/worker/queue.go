package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

const (
	pullAgain     = 250 * time.Millisecond // after a pull that failed
	firstNakDelay = 250 * time.Millisecond
	lastNakDelay  = 30 * time.Second
)

// queue is the subscriber of a worker: the calls of one consumer, as many at once as there are slots. A call is pulled when
// there is a free slot for it, and never before. A queue that is closed waits for the outcome of the pull requests that are
// under way, and handles the calls that they may bring: a call that is sent to nobody, or given back, is at its second
// delivery, and then an unsafe tool must not execute it.
type queue struct {
	*Options
	config  jetstream.ConsumerConfig
	turns   *turns
	failing atomic.Bool // since the last pull that went well

	close   sync.Once
	closing chan struct{}
	running sync.WaitGroup
}

// subscriber is what delivers the calls of the queue of that name. Its consumer is there when it is returned.
func (w *Worker) subscriber(ctx context.Context, name string) (message.Subscriber, error) {
	q := &queue{
		Options: &w.opts, config: Consumer(w.opts.Subjects, name, w.opts.AckWait), turns: newTurns(w.opts.Concurrency),
		closing: make(chan struct{}),
	}
	if _, err := q.find(ctx); err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", name, schemas.StreamTools, err)
	}
	return q, nil
}

// Subscribe delivers the calls until ctx ends or the queue is closed. The channel is closed when the last is settled.
func (q *queue) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	consumer, err := q.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("worker: consumer %s of %s: %w", q.config.Durable, schemas.StreamTools, err)
	}
	stop, cancel := context.WithCancel(ctx)
	out := make(chan *message.Message)
	q.running.Go(func() {
		select {
		case <-q.closing:
		case <-stop.Done():
		}
		cancel()
	})
	q.running.Go(func() {
		defer close(out)
		defer cancel()
		var slots sync.WaitGroup
		for range q.Concurrency {
			slots.Go(func() {
				if !q.slot(stop, consumer, out) {
					cancel()
				}
			})
		}
		slots.Wait()
	})
	return out, nil
}

// Close takes no more calls and returns when those at work are settled.
func (q *queue) Close() error {
	q.close.Do(func() { close(q.closing) })
	q.running.Wait()
	return nil
}

// find looks for the consumer and makes it if there is none: where somebody else makes them, a worker need not be
// permitted to.
func (q *queue) find(ctx context.Context) (jetstream.Consumer, error) {
	c, err := q.JS.Consumer(ctx, schemas.StreamTools, q.config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c, err = q.JS.CreateOrUpdateConsumer(ctx, schemas.StreamTools, q.config)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = fmt.Errorf("%w on %s: start a runner there first", err, q.NC.ConnectedUrlRedacted())
	}
	return c, err
}

// slot handles one call at a time until stop ends. It reports false if the connection was closed before that: nothing will
// ever come again.
func (q *queue) slot(stop context.Context, consumer jetstream.Consumer, out chan<- *message.Message) bool {
	for {
		wait, ok := q.turns.take(stop)
		if !ok {
			return true
		}
		call, err := pull(consumer, wait)
		if err == nil {
			q.failing.Store(false)
		}
		switch {
		case call != nil:
			q.turns.more()
			q.deliver(out, call, consumer.CachedInfo().Config.AckWait)
			continue
		case err != nil && q.NC.IsClosed():
			if !q.failing.Swap(true) && stop.Err() == nil {
				q.Logger.Error("the connection was closed before its worker", "worker", q.ID, "err", err)
			}
			return false
		case err != nil:
			if !q.failing.Swap(true) {
				q.Logger.Warn("pulling calls is interrupted, trying again", "worker", q.ID, "consumer", q.config.Durable, "err", err)
			}
			consumer = q.lookAgain(stop, consumer)
		}
		q.turns.fewer()
	}
}

// pull asks for one call and waits until it comes or the server says that none has.
func pull(consumer jetstream.Consumer, wait time.Duration) (jetstream.Msg, error) {
	batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(wait))
	if err != nil {
		return nil, err
	}
	for call := range batch.Messages() {
		return call, nil
	}
	return nil, batch.Error()
}

// lookAgain waits a moment and makes sure of the consumer, which somebody may have deleted. If it is not to be had, the one
// there was may come back.
func (q *queue) lookAgain(stop context.Context, consumer jetstream.Consumer) jetstream.Consumer {
	select {
	case <-time.After(pullAgain):
	case <-stop.Done():
		return consumer
	}
	if found, err := q.find(stop); err == nil {
		return found
	}
	return consumer
}

// deliver hands a call over and settles it as it is answered, with signs of life to the server meanwhile.
func (q *queue) deliver(out chan<- *message.Message, raw jetstream.Msg, ackWait time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	msg := fromJetStream(ctx, raw)
	alive := time.NewTicker(max(ackWait/3, time.Millisecond))
	defer alive.Stop()
	for {
		select {
		case out <- msg:
			out = nil
		case <-alive.C:
			q.settled(raw, "report progress", raw.InProgress())
		case <-msg.Acked():
			q.settled(raw, "acknowledge", raw.Ack())
			return
		case <-msg.Nacked():
			q.settled(raw, "refuse", raw.NakWithDelay(nakDelay(raw)))
			return
		}
	}
}

// nakDelay doubles with every delivery.
func nakDelay(raw jetstream.Msg) time.Duration {
	const doublings = 7 // reach lastNakDelay, and keep the shift from overflowing
	md, err := raw.Metadata()
	if err != nil {
		return lastNakDelay
	}
	return min(firstNakDelay<<min(md.NumDelivered-1, doublings), lastNakDelay)
}

// settled logs what could not be told to the server: the call will come again after the consumer's ack wait.
func (q *queue) settled(raw jetstream.Msg, what string, err error) {
	if err != nil {
		q.Logger.Warn("call will be delivered again", "action", what, "subject", raw.Subject(), "err", err)
	}
}

type rawKey struct{}

// fromJetStream is the message of a queue, its metadata the first value of each header.
func fromJetStream(ctx context.Context, raw jetstream.Msg) *message.Message {
	msg := message.NewMessage(raw.Headers().Get(jetstream.MsgIDHeader), raw.Data())
	for name, values := range raw.Headers() {
		if len(values) > 0 {
			msg.Metadata[name] = values[0]
		}
	}
	msg.SetContext(context.WithValue(ctx, rawKey{}, raw))
	return msg
}

// rawOf returns the call behind a message of a queue.
func rawOf(msg *message.Message) (jetstream.Msg, bool) {
	raw, ok := msg.Context().Value(rawKey{}).(jetstream.Msg)
	return raw, ok
}
