package bus

import (
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
	pullHeartbeat       = 5 * time.Second // a pull request that the server has forgotten is noticed after two
)

// SubscriberOptions configures [NewSubscriber].
type SubscriberOptions struct {
	// Stream to read from; empty means the one that takes the topic as a subject.
	Stream string
	// Consumer returns the durable consumer of a topic. It needs a Durable name. The filter defaults to the topic;
	// acknowledgement is always explicit. It is created, or updated, by Subscribe, and again whenever it has vanished.
	Consumer func(topic string) jetstream.ConsumerConfig
	// Concurrency is how many messages of a subscription are handled at once, default 1. Each is pulled when there is a
	// free slot for it, never before.
	Concurrency int
	// ConfirmAck waits for the server to confirm an acknowledgement. Without it a lost one means another delivery.
	ConfirmAck bool
	// NackDelay is how long the next delivery waits after the given number of deliveries; the default doubles from 250 ms
	// to 30 s.
	NackDelay func(deliveries uint64) time.Duration
	// MaxDeliveries is when a message that is nacked again is terminated; 0 means never. See also [DeadLetter].
	MaxDeliveries uint64
	// CloseTimeout is how long messages may be worked on once the subscription ends, default 30 s. Then their contexts end
	// with [ErrClosed] and they are given back.
	CloseTimeout time.Duration
	// Pull adds options to the pull requests, such as a priority group.
	Pull []jetstream.PullMessagesOpt
	// Logger is told of acknowledgements that failed and of pulls that fail for a while; nil discards.
	Logger *slog.Logger
}

// Subscriber is a Watermill Subscriber on durable JetStream pull consumers. A message is delivered again unless it is
// acknowledged; as long as somebody works on it, and however long that takes, the server is told so. The metadata and the
// raw message come along ([RawMessage]). It may be used concurrently.
type Subscriber struct {
	js   jetstream.JetStream
	opts SubscriberOptions

	closing  chan struct{}
	mu       sync.Mutex // guards isClosed, and Add of running against Wait
	isClosed bool
	running  sync.WaitGroup
}

var _ message.Subscriber = (*Subscriber)(nil)

// NewSubscriber returns a Subscriber on c, which stays the caller's and has to outlive it.
func NewSubscriber(c *Conn, o SubscriberOptions) (*Subscriber, error) {
	if o.Consumer == nil {
		return nil, errors.New("bus: new subscriber: no consumer given")
	}
	o.Concurrency = max(o.Concurrency, 1)
	o.CloseTimeout = or(o.CloseTimeout, defaultCloseTimeout)
	if o.NackDelay == nil {
		o.NackDelay = nackDelay
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Subscriber{js: c.js, opts: o, closing: make(chan struct{})}, nil
}

// Subscribe creates or updates the topic's consumer and delivers its messages. When ctx ends, or the Subscriber is
// closed, no more messages are taken, and the channel is closed once those at work are settled or CloseTimeout is over. The messages'
// contexts carry the values of ctx, but not its end.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	if s.isClosed {
		s.mu.Unlock()
		return nil, fmt.Errorf("bus: subscribe to %s: subscriber %w", topic, ErrClosed)
	}
	s.running.Add(1)
	s.mu.Unlock()

	consumer, err := s.consumer(ctx, topic)
	if err != nil {
		s.running.Done()
		return nil, err
	}
	sub := &subscription{Subscriber: s, topic: topic, out: make(chan *message.Message),
		log: s.opts.Logger.With("topic", topic)}
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

// consumer creates or updates the consumer of a topic.
func (s *Subscriber) consumer(ctx context.Context, topic string) (jetstream.Consumer, error) {
	cfg := s.opts.Consumer(topic)
	if cfg.Durable == "" {
		return nil, fmt.Errorf("bus: subscribe to %s: the consumer has no durable name", topic)
	}
	if cfg.FilterSubject == "" && len(cfg.FilterSubjects) == 0 {
		cfg.FilterSubject = topic
	}
	cfg.AckPolicy = jetstream.AckExplicitPolicy
	stream := s.opts.Stream
	if stream == "" {
		var err error
		if stream, err = s.js.StreamNameBySubject(ctx, topic); err != nil {
			return nil, fmt.Errorf("bus: subscribe to %s: find its stream: %w", topic, err)
		}
	}
	c, err := s.js.CreateOrUpdateConsumer(ctx, stream, cfg)
	if err != nil {
		return nil, fmt.Errorf("bus: subscribe to %s: consumer %s of %s: %w", topic, cfg.Durable, stream, err)
	}
	return c, nil
}

// nackDelay doubles from minNackDelay with every delivery.
func nackDelay(deliveries uint64) time.Duration {
	const doublings = 7 // reach maxNackDelay, and keep the shift from overflowing
	if deliveries == 0 {
		deliveries = 1
	}
	return min(minNackDelay<<min(deliveries-1, doublings), maxNackDelay)
}
