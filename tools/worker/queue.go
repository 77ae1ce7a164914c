package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// upgradeTimeout is short: a server answers at once, unless the worker is not permitted to ask.
	upgradeTimeout = 2 * time.Second
	// maxDeliveries is the delivery whose failure is the last.
	maxDeliveries = 10
)

// queue is the consumer of a tool's calls, which all its workers share.
type queue struct {
	*Options
	config jetstream.ConsumerConfig
}

// subscriber is what delivers the calls of the queue of that name, as many at once as there are slots. Its consumer is
// there when it is returned.
func (w *Worker) subscriber(ctx context.Context, name string) (message.Subscriber, error) {
	q := queue{&w.opts, Consumer(w.opts.Subjects, name, w.opts.AckWait)}
	consumer, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	q.upgrade(ctx, consumer.CachedInfo().Config)
	return pubsub.NewSubscriber(w.opts.JS, pubsub.SubscriberOptions{
		Consumer:     func(ctx context.Context, _ string) (jetstream.Consumer, error) { return q.find(ctx) },
		Concurrency:  w.opts.Concurrency,
		CloseTimeout: w.opts.StopTimeout + answerGrace, // when answers end, too
		Logger:       w.opts.Logger.With("worker", w.opts.ID),
	})
}

// find looks for the consumer and makes it if there is none: where another program makes them, a worker need not be
// permitted to.
func (q queue) find(ctx context.Context) (jetstream.Consumer, error) {
	c, err := q.JS.Consumer(ctx, schemas.StreamTools, q.config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c, err = q.JS.CreateOrUpdateConsumer(ctx, schemas.StreamTools, q.config)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = fmt.Errorf("%w on %s: start a runner there first", err, dial.Connected(q.NC))
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", q.config.Durable, schemas.StreamTools, err)
	}
	return c, nil
}

// upgrade gives a consumer that was made by others the ack wait of this worker. A worker that may not do so goes on
// with the one there is.
func (q queue) upgrade(ctx context.Context, config jetstream.ConsumerConfig) {
	was := config.AckWait
	if was == q.config.AckWait {
		return
	}
	config.AckWait = q.config.AckWait
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	if _, err := q.JS.UpdateConsumer(ctx, schemas.StreamTools, config); err != nil {
		q.Logger.Warn("ack wait not updated: a lost call is given to another worker after the consumer's own",
			"worker", q.ID, "consumer", config.Durable, "has", was, "wanted", q.config.AckWait, "err", err)
		return
	}
	q.Logger.Info("ack wait updated", "worker", q.ID, "consumer", config.Durable, "was", was, "is", q.config.AckWait)
}

// deadLetters is the middleware that gives up a call which cannot even be answered. Failures because the worker stops
// are no fault of the call, and wrap [pubsub.ErrClosed].
func (w *Worker) deadLetters() message.HandlerMiddleware {
	return pubsub.DeadLetter(w.opts.JS, pubsub.DeadLetterOptions{
		Subjects: w.opts.Subjects, MaxDeliveries: maxDeliveries, Logger: w.opts.Logger,
		SessionOf: func(subject string) string {
			_, session, _, _ := w.opts.Subjects.ParseTool(subject) // empty if it is none
			return session
		},
	})
}
