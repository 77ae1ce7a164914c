package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

const (
	// startTimeout is how long a worker that starts waits for servers that cannot create consumers yet: a cluster that
	// has just started has no leader, or no room.
	startTimeout = 30 * time.Second
	// upgradeTimeout is short: a server answers at once, and never if the worker may not publish the request.
	upgradeTimeout = 2 * time.Second
	// maxDeliveries is how often a call is delivered before it is moved to AGENT_DEAD.
	maxDeliveries = 10
	// channelIdle is the inactivity limit of a channel's queues: there may be one for each tool of each session.
	channelIdle = 10 * time.Minute
	// codeNoResources is the error code of a cluster that has no place for a consumer, for example because its servers
	// have not all joined.
	codeNoResources jetstream.ErrorCode = 10023
)

// queue is the durable consumer of a tool's calls. All workers of the tool share it.
type queue struct {
	*Options
	config jetstream.ConsumerConfig
}

// subscriber returns the subscriber that delivers the calls of the tool's queue, as many at once as there are slots.
// The consumer exists when subscriber returns.
func (w *Worker) subscriber(ctx context.Context, tool tools.Tool) (message.Subscriber, error) {
	q := queue{&w.opts, Consumer(w.opts.Subjects, tool.Queue().Name(), w.opts.AckWait)}
	if tool.Channel {
		q.config.InactiveThreshold = channelIdle
	}
	consumer, err := q.start(ctx)
	if err != nil {
		return nil, err
	}
	q.upgrade(ctx, consumer.CachedInfo().Config)
	return pubsub.NewSubscriber(w.opts.JS, pubsub.SubscriberOptions{
		Consumer:     func(ctx context.Context, _ string) (jetstream.Consumer, error) { return q.findOrCreate(ctx) },
		Concurrency:  w.opts.Concurrency,
		CloseTimeout: w.closeTimeout(), // then the worker stops storing answers, too
		Logger:       w.opts.Logger.With("worker", w.opts.ID),
	})
}

// start is [queue.findOrCreate] for a worker that starts.
func (q queue) start(ctx context.Context) (jetstream.Consumer, error) {
	waiting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		c, err := q.findOrCreate(ctx)
		if err == nil || !natsio.Passing(err) && !natsio.HasCode(err, codeNoResources) ||
			!natsio.Wait(waiting, natsio.RetryWait) {
			return c, err
		}
		q.Logger.Debug("consumer not created, trying again", "worker", q.ID, "err", err)
	}
}

// findOrCreate returns the consumer, and creates it only if it does not exist: a worker needs no permission to create
// consumers if another program creates them.
func (q queue) findOrCreate(ctx context.Context) (jetstream.Consumer, error) {
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

// upgrade sets the ack wait of an existing consumer to this worker's. A worker without the permission to update the
// consumer keeps using it as it is.
func (q queue) upgrade(ctx context.Context, config jetstream.ConsumerConfig) {
	was := config.AckWait
	if was == q.config.AckWait {
		return
	}
	config.AckWait = q.config.AckWait
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	if _, err := q.JS.UpdateConsumer(ctx, schemas.StreamTools, config); err != nil {
		q.Logger.Warn("ack wait not updated: a lost call is redelivered after the ack wait of the consumer",
			"worker", q.ID, "consumer", config.Durable, "has", was, "wanted", q.config.AckWait, "err", err)
		return
	}
	q.Logger.Info("ack wait updated", "worker", q.ID, "consumer", config.Durable, "was", was, "is", q.config.AckWait)
}

// deadLetters returns the middleware that moves a call that cannot be handled to AGENT_DEAD after maxDeliveries, and
// tells its caller. It does not count failures that wrap [pubsub.ErrClosed]: they are caused by the shutdown of the
// worker.
func (w *Worker) deadLetters() message.HandlerMiddleware {
	return pubsub.DeadLetter(w.opts.JS, pubsub.DeadLetterOptions{
		Subjects: w.opts.Subjects, MaxDeliveries: maxDeliveries, Logger: w.opts.Logger,
		SessionOf: func(subject string) string {
			_, session, _, _ := w.opts.Subjects.ParseTool(subject) // empty if the subject is not legal
			return session
		},
		Answer: w.giveUp,
	})
}
