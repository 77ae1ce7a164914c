package bus_test

import (
	"flag"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
)

// With this flag the suite sends as many messages as it does by default, which takes a minute instead of a few seconds.
var fullSuite = flag.Bool("watermill.full", false, "run Watermill's acceptance suite with all its messages")

// suiteSubscriber is a Subscriber that makes the stream of a topic first: the suite invents its topics. Each has its own
// stream, because the suite publishes one message id to several topics.
type suiteSubscriber struct {
	*bus.Subscriber
	t *testing.T
	c *bus.Conn
}

func (s suiteSubscriber) SubscribeInitialize(topic string) error {
	_, err := s.c.JetStream().CreateStream(deadline(s.t), jetstream.StreamConfig{Name: topic, Subjects: []string{topic}})
	return err
}

// suitePubSub returns the suite's constructor. Subscribers of one group share a durable consumer.
func suitePubSub(c *bus.Conn, o bus.SubscriberOptions, consumer jetstream.ConsumerConfig,
) func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
	return func(t *testing.T, group string) (message.Publisher, message.Subscriber) {
		t.Helper()
		own := consumer
		own.Durable = group
		opts := o
		opts.Consumer = func(string) jetstream.ConsumerConfig { return own }
		sub, err := bus.NewSubscriber(c, opts)
		if err != nil {
			t.Fatal(err)
		}
		return bus.NewPublisher(c), suiteSubscriber{sub, t, c}
	}
}

func runSuite(t *testing.T, o bus.SubscriberOptions, consumer jetstream.ConsumerConfig, features tests.Features) {
	o.CloseTimeout = time.Second
	o.NackDelay = func(uint64) time.Duration { return 0 }
	features.Persistent = true
	features.ConsumerGroups = true
	features.ForceShort = !*fullSuite
	newPubSub := suitePubSub(connect(t, startServer(t)), o, consumer)
	newDefault := func(t *testing.T) (message.Publisher, message.Subscriber) { return newPubSub(t, "default") }
	tests.TestPubSub(t, features, newDefault, newPubSub)
}

// TestWatermillSuite is Watermill's acceptance suite with several messages at once.
func TestWatermillSuite(t *testing.T) {
	runSuite(t, bus.SubscriberOptions{Concurrency: 4, ConfirmAck: true}, jetstream.ConsumerConfig{}, tests.Features{})
}

// TestWatermillSuiteInOrder is the suite with one message at a time for all subscribers together: the order holds.
func TestWatermillSuiteInOrder(t *testing.T) {
	runSuite(t, bus.SubscriberOptions{}, jetstream.ConsumerConfig{MaxAckPending: 1}, tests.Features{GuaranteedOrder: true})
}
