package pubsub_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/pubsub"
)

// With this flag the suite sends as many messages as it does by default, which takes a minute instead of a few seconds.
var fullSuite = flag.Bool("watermill.full", false, "run Watermill's acceptance suite with all its messages")

// suiteSubscriber is a Subscriber that makes the stream of a topic first: the suite invents its topics. Each has its
// own stream, because the suite publishes one message id to several topics.
type suiteSubscriber struct {
	*pubsub.Subscriber
	t *testing.T
	c *bus.Conn
}

func (s suiteSubscriber) SubscribeInitialize(topic string) error {
	_, err := s.c.JetStream().CreateStream(bustest.Deadline(s.t),
		jetstream.StreamConfig{Name: topic, Subjects: []string{topic}})
	return err
}

// suitePubSub returns the suite's constructor. Subscribers of one group share a durable consumer.
func suitePubSub(c *bus.Conn, o pubsub.SubscriberOptions, consumer jetstream.ConsumerConfig,
) func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	return func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		own := consumer
		own.Durable = group
		opts := o
		opts.Consumer = func(ctx context.Context, topic string) (jetstream.Consumer, error) {
			cfg := own
			cfg.FilterSubject, cfg.AckPolicy = topic, jetstream.AckExplicitPolicy
			return c.JetStream().CreateOrUpdateConsumer(ctx, topic, cfg)
		}
		sub, err := pubsub.NewSubscriber(c.JetStream(), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // the suite leaves some of them open
			if err := sub.Close(); err != nil {
				t.Error(err)
			}
		})
		return pubsub.NewPublisher(c.JetStream()), suiteSubscriber{sub, t, c}
	}
}

func runSuite(t *testing.T, o pubsub.SubscriberOptions, consumer jetstream.ConsumerConfig, features tests.Features) {
	o.CloseTimeout = time.Second
	o.LongestPull = 50 * time.Millisecond // the suite closes many subscribers, one after the other
	o.NackDelay = func(uint64) time.Duration { return 0 }
	features.Persistent = true
	features.ConsumerGroups = true
	features.ForceShort = !*fullSuite
	newPubSub := suitePubSub(bustest.Connect(t, bustest.Server(t)), o, consumer)
	newDefault := func(t *testing.T) (message.Publisher, message.Subscriber) { return newPubSub(t, "default") }
	tests.TestPubSub(t, features, newDefault, newPubSub)
}

// TestWatermillSuite is Watermill's acceptance suite with several messages at once.
func TestWatermillSuite(t *testing.T) {
	t.Parallel()
	runSuite(t, pubsub.SubscriberOptions{Concurrency: 4, ConfirmAck: true}, jetstream.ConsumerConfig{}, tests.Features{})
}

// TestWatermillSuiteInOrder is the suite with one message at a time for all subscribers together: the order holds.
func TestWatermillSuiteInOrder(t *testing.T) {
	t.Parallel()
	runSuite(t, pubsub.SubscriberOptions{}, jetstream.ConsumerConfig{MaxAckPending: 1},
		tests.Features{GuaranteedOrder: true})
}
