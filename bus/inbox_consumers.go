package bus

import (
	"context"
	"fmt"

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
			g.Go(func() error {
				_, err := s.createConsumer(ctx, n)
				return err
			})
		}
	}
	return g.Wait()
}

// consumerConfig keeps the consumer's state in memory: the queue itself is on disk, and what is lost with the server is
// only what it had delivered to whom, so that everything unsettled is delivered again. On disk it is a file rewritten for
// each of the partitions many times a second, a fifth of all work.
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

// consumer returns the consumer of a partition, made again if somebody has deleted it.
func (s *inboxSubscriber) consumer(ctx context.Context, n int) (jetstream.Consumer, error) {
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
