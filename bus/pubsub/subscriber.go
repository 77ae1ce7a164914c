package pubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	defaultCloseTimeout = 30 * time.Second
	minNackDelay        = 250 * time.Millisecond
	maxNackDelay        = 30 * time.Second
	settleTimeout       = 5 * time.Second // of a confirmed acknowledgement
)

// SubscriberOptions configures [NewSubscriber].
type SubscriberOptions struct {
	// Consumer returns the durable consumer of a topic, and creates it if there is none. It is called by Subscribe, and
	// after a failed pull, because the consumer may have been deleted.
	Consumer func(ctx context.Context, topic string) (jetstream.Consumer, error)
	// Concurrency is how many messages of a subscription are handled at once, default 1.
	Concurrency int
	// ConfirmAck waits for the server to confirm an ack. Without it a lost ack means another delivery.
	ConfirmAck bool
	// NackDelay returns the delay of the next delivery after this number of deliveries, default [NackDelay].
	NackDelay func(deliveries uint64) time.Duration
	// LongestPull is the longest expiry of a pull request, for an idle subscription; default 1 s. A subscription that
	// ends waits for its pending requests.
	LongestPull time.Duration
	// CloseTimeout is how long messages may stay at work after the subscription was asked to end, default 30 s. Then
	// their contexts are cancelled with [ErrClosed] and they are nak'd.
	CloseTimeout time.Duration
	// Logger logs failed acks and interruptions of pulling; nil discards.
	Logger *slog.Logger
}

// Subscriber is a Watermill Subscriber on durable JetStream pull consumers. [RawMessage] returns the JetStream message
// of one of its messages. It may be used concurrently.
type Subscriber struct {
	js   jetstream.JetStream
	opts SubscriberOptions

	closing  chan struct{}
	mu       sync.Mutex // guards isClosed, and Add of running against Wait
	isClosed bool
	running  sync.WaitGroup
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a Subscriber on the connection of js. The caller keeps the connection, which has to outlive it.
func NewSubscriber(js jetstream.JetStream, o SubscriberOptions) (*Subscriber, error) {
	if o.Consumer == nil {
		return nil, errors.New("pubsub: new subscriber: no consumer given")
	}
	o.Concurrency = max(o.Concurrency, 1)
	if o.CloseTimeout <= 0 {
		o.CloseTimeout = defaultCloseTimeout
	}
	if o.LongestPull <= 0 {
		o.LongestPull = defaultLongestPull
	}
	if o.NackDelay == nil {
		o.NackDelay = NackDelay
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Subscriber{js: js, opts: o, closing: make(chan struct{})}, nil
}

// Subscribe delivers the messages of the topic's consumer. When ctx ends or the Subscriber is closed, it requests no
// more messages, and closes the channel once all requested messages are settled or CloseTimeout has passed. The caller
// has to read the channel until it is closed. The contexts of messages have the values of ctx, but do not end with it.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return nil, fmt.Errorf("pubsub: subscribe to %s: subscriber %w", topic, ErrClosed)
	}
	s.running.Add(1)
	s.mu.Unlock()

	consumer, err := s.opts.Consumer(ctx, topic)
	if err != nil {
		s.running.Done()
		return nil, fmt.Errorf("pubsub: subscribe to %s: %w", topic, err)
	}
	sub := &subscription{
		Subscriber: s, topic: topic, turns: newTurns(s.opts.Concurrency, s.opts.LongestPull),
		out: make(chan *message.Message), log: s.opts.Logger.With("topic", topic),
	}
	go func() {
		defer s.running.Done()
		sub.run(ctx, consumer)
	}()
	return sub.out, nil
}

// Close ends all subscriptions and returns when their channels are closed. It may be called more than once.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	if !s.isClosed {
		s.isClosed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// NackDelay returns an exponential backoff that doubles with every delivery, from 250 ms to 30 s.
func NackDelay(deliveries uint64) time.Duration {
	const doublings = 7 // reach maxNackDelay, and keep the shift from overflowing
	return min(minNackDelay<<min(max(deliveries, 1)-1, doublings), maxNackDelay)
}
