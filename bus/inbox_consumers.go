package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/schemas"
)

const (
	priorityGroup    = "runner" // the one group of every consumer of the inbox
	createConcurrent = 16       // consumers created at once
)

func consumerName(partition int) string { return fmt.Sprintf("p%d", partition) }

// ensureConsumers makes the consumers of all partitions as they should be. Usually they are, and it costs one request.
func (s *inboxSubscriber) ensureConsumers(ctx context.Context) error {
	have := make(map[string]jetstream.ConsumerConfig, s.partitions)
	list := s.stream.ListConsumers(ctx)
	for info := range list.Info() {
		have[info.Name] = info.Config
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("bus: inbox: list consumers of %s: %w", schemas.StreamCommands, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(createConcurrent)
	for n := range s.partitions {
		if want := s.consumerConfig(n); !sameConsumer(have[want.Name], want) {
			g.Go(func() error { return s.ensureConsumer(ctx, n) })
		}
	}
	return g.Wait()
}

// ensureConsumer creates or updates a consumer, or makes it anew if it has no leader.
func (s *inboxSubscriber) ensureConsumer(ctx context.Context, n int) error {
	_, err := s.createConsumer(ctx, n)
	if err != nil && leaderless(err) && ctx.Err() == nil {
		_, err = s.remakeConsumer(ctx, n)
	}
	return err
}

// leaderlessFor is how long a consumer may have no leader before it is made anew: longer than an election takes.
const leaderlessFor = 15 * time.Second

// remakeConsumer makes a consumer anew while its stream has a leader and it has none. That is what becomes of replicas in
// memory when most of their servers were down at once: they elect nobody until all are up again. Nothing is lost by it:
// what was unsettled is delivered again.
func (s *inboxSubscriber) remakeConsumer(ctx context.Context, n int) (jetstream.Consumer, error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("bus: inbox: stream %s: %w", schemas.StreamCommands, err)
	}
	if info.Cluster != nil && info.Config.Replicas > 1 {
		s.opts.Logger.Info("making a consumer without a leader anew", "consumer", consumerName(n))
		// It is gone even if nobody answers: who would answer is its leader.
		deleting, cancel := context.WithTimeout(ctx, handoverTimeout)
		defer cancel()
		_ = s.stream.DeleteConsumer(deleting, consumerName(n))
	}
	return s.createConsumer(ctx, n)
}

// consumerConfig keeps the consumer's state in memory: the queue itself is on disk, and what is lost with the server is
// only what it had delivered to whom, so that everything unsettled is delivered again. On disk it is a file rewritten for
// each of the partitions many times a second, a fifth of all work; with replicas, on 32
// sessions at once, it is more than half. See remakeConsumer for what it takes.
//
// It leaves MaxDeliver open: the server would keep a message that it does not deliver any more for ever,
// out of sight. Giving up is the inbox's own business.
func (s *inboxSubscriber) consumerConfig(n int) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name:           consumerName(n),
		Durable:        consumerName(n),
		Description:    "commands of one partition, read by one runner at a time",
		FilterSubject:  fmt.Sprintf("%s.cmd.%d.*.*", s.conn.subjects.Prefix(), n),
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        s.opts.AckWait,
		MaxAckPending:  s.opts.MaxPending,
		MaxDeliver:     -1,
		MemoryStorage:  true,
		PriorityPolicy: jetstream.PriorityPolicyPinned,
		PriorityGroups: []string{priorityGroup},
		PinnedTTL:      s.opts.PinnedTTL,
	}
}

func sameConsumer(have, want jetstream.ConsumerConfig) bool {
	return have.Name == want.Name && have.FilterSubject == want.FilterSubject && have.AckPolicy == want.AckPolicy &&
		have.AckWait == want.AckWait && have.MaxAckPending == want.MaxAckPending && have.MaxDeliver == want.MaxDeliver &&
		have.PriorityPolicy == want.PriorityPolicy && have.PinnedTTL == want.PinnedTTL
}

// consumer returns the consumer of a partition, made again if somebody has deleted it, or anew if it has been stuck for too
// long.
func (s *inboxSubscriber) consumer(ctx context.Context, n int, stuck bool) (jetstream.Consumer, error) {
	if stuck {
		return s.remakeConsumer(ctx, n)
	}
	c, err := s.stream.Consumer(ctx, consumerName(n))
	if err != nil {
		return s.createConsumer(ctx, n)
	}
	return c, nil
}

func (s *inboxSubscriber) createConsumer(ctx context.Context, n int) (jetstream.Consumer, error) {
	c, err := s.stream.CreateOrUpdateConsumer(ctx, s.consumerConfig(n))
	if err != nil {
		return nil, fmt.Errorf("bus: inbox: consumer %s of %s: %w", consumerName(n), schemas.StreamCommands, err)
	}
	return c, nil
}
