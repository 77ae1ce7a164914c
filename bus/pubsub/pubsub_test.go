package pubsub_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/pubsub"
)

// queue is a work queue of its own for one test, with the subject jobs.
type queue struct {
	*bus.Conn
	stream jetstream.Stream
}

func newQueue(t *testing.T, c *bus.Conn) queue {
	t.Helper()
	s, err := c.JetStream().CreateStream(bustest.Deadline(t), jetstream.StreamConfig{
		Name: "JOBS", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	return queue{c, s}
}

func (q queue) subscriber(t *testing.T, o pubsub.SubscriberOptions, ackWait time.Duration) *pubsub.Subscriber {
	t.Helper()
	o.LongestPull = 100 * time.Millisecond // which the end of the test waits for
	o.Consumer = func(ctx context.Context, topic string) (jetstream.Consumer, error) {
		return q.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: "worker", AckWait: ackWait, FilterSubject: topic, AckPolicy: jetstream.AckExplicitPolicy,
		})
	}
	sub, err := pubsub.NewSubscriber(q.JetStream(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	})
	return sub
}

func (q queue) subscribe(t *testing.T, sub *pubsub.Subscriber) <-chan *message.Message {
	t.Helper()
	messages, err := sub.Subscribe(t.Context(), "jobs")
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func (q queue) publish(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := pubsub.NewPublisher(q.JetStream()).Publish("jobs", message.NewMessage(id, []byte("do "+id))); err != nil {
			t.Fatal(err)
		}
	}
}

func (q queue) isEmpty(t *testing.T) bool {
	info, err := q.stream.Info(bustest.Deadline(t))
	return err == nil && info.State.Msgs == 0
}

func (q queue) consumer(t *testing.T) *jetstream.ConsumerInfo {
	t.Helper()
	c, err := q.stream.Consumer(bustest.Deadline(t), "worker")
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo()
}

func receive(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m, ok := <-messages:
		if !ok {
			t.Fatal("the channel was closed")
		}
		return m
	case <-time.After(90 * time.Second):
		t.Fatal("no message came")
		return nil
	}
}

// progressReports counts the reports of progress that reach the server.
func (q queue) progressReports(t *testing.T) (wait func(n int)) {
	t.Helper()
	acks, err := q.NATS().SubscribeSync("$JS.ACK.>")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a subscription with messages that nobody reads keeps its connection from closing
		if err := acks.Unsubscribe(); err != nil {
			t.Error(err)
		}
	})
	return func(n int) {
		t.Helper()
		for n > 0 {
			m, err := acks.NextMsgWithContext(bustest.Deadline(t))
			if err != nil {
				t.Fatalf("%d more reports of progress: %v", n, err)
			}
			if bytes.HasPrefix(m.Data, []byte("+WPI")) {
				n--
			}
		}
	}
}

func TestSubscriberReportsProgressWhileItWorks(t *testing.T) {
	t.Parallel()
	q := newQueue(t, bustest.Connect(t, bustest.Server(t)))
	waitForReports := q.progressReports(t)
	messages := q.subscribe(t, q.subscriber(t, pubsub.SubscriberOptions{Concurrency: 2}, time.Second))
	q.publish(t, "a")
	m := receive(t, messages)
	waitForReports(5) // longer than the server waits for an acknowledgement
	select {
	case again := <-messages:
		t.Fatalf("%s was delivered again while it was worked on", again.UUID)
	default:
	}
	m.Ack()
	bustest.Eventually(t, "the message is gone", func() bool { return q.isEmpty(t) })
	if n := q.consumer(t).Delivered.Consumer; n != 1 {
		t.Errorf("delivered %d times", n)
	}
}

func TestSubscriberTakesNoMoreThanItHasSlotsFor(t *testing.T) {
	t.Parallel()
	q := newQueue(t, bustest.Connect(t, bustest.Server(t)))
	q.publish(t, "a", "b", "c", "d", "e")
	messages := q.subscribe(t, q.subscriber(t, pubsub.SubscriberOptions{Concurrency: 2, ConfirmAck: true}, 10*time.Second))
	held := []*message.Message{receive(t, messages), receive(t, messages)}
	for range 3 {
		if info := q.consumer(t); info.NumAckPending != 2 || info.NumWaiting != 0 {
			t.Fatalf("%d messages taken and %d asked for, with two slots in use", info.NumAckPending, info.NumWaiting)
		}
		held[0].Ack()
		held = append(held[1:], receive(t, messages))
	}
	held[0].Ack()
	held[1].Ack()
	bustest.Eventually(t, "all done", func() bool { return q.isEmpty(t) })
}

func TestNackedMessagesComeAgain(t *testing.T) {
	t.Parallel()
	q := newQueue(t, bustest.Connect(t, bustest.Server(t)))
	asked := make(chan uint64, 3)
	messages := q.subscribe(t, q.subscriber(t, pubsub.SubscriberOptions{
		NackDelay: func(n uint64) time.Duration { asked <- n; return time.Duration(n) * time.Millisecond },
	}, 10*time.Second))
	q.publish(t, "a")
	for want := range uint64(3) {
		receive(t, messages).Nack()
		if n := <-asked; n != want+1 {
			t.Errorf("the delay of delivery %d was asked, want %d", n, want+1)
		}
	}
	receive(t, messages).Ack()
	bustest.Eventually(t, "the message is gone", func() bool { return q.isEmpty(t) })
}

func TestForeignMessagesAreDelivered(t *testing.T) {
	t.Parallel()
	q := newQueue(t, bustest.Connect(t, bustest.Server(t)))
	messages := q.subscribe(t, q.subscriber(t, pubsub.SubscriberOptions{}, 10*time.Second))
	for _, tt := range []struct {
		name string
		msg  *nats.Msg
		uuid string
	}{
		{"no header, no data", &nats.Msg{}, "JOBS:1"},
		{"a header with several values", &nats.Msg{Header: nats.Header{"k": {"v1", "v2"}}}, "JOBS:2"},
		{"an empty header value", &nats.Msg{Header: nats.Header{"k": {""}}, Data: []byte{0xff, 0}}, "JOBS:3"},
		{"an id", &nats.Msg{Header: nats.Header{"Nats-Msg-Id": {"x"}, "k": {"v"}}}, "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.msg.Subject = "jobs"
			if _, err := q.JetStream().PublishMsg(bustest.Deadline(t), tt.msg); err != nil {
				t.Fatal(err)
			}
			m := receive(t, messages)
			m.Ack()
			if m.UUID != tt.uuid || !bytes.Equal(m.Payload, tt.msg.Data) || m.Metadata["k"] != tt.msg.Header.Get("k") {
				t.Errorf("got %q %v %q", m.UUID, m.Metadata, m.Payload)
			}
			raw, ok := pubsub.RawMessage(m)
			if !ok || raw.Subject() != "jobs" {
				t.Errorf("raw message: %v", ok)
			}
		})
	}
	if _, ok := pubsub.RawMessage(message.NewMessage("x", nil)); ok {
		t.Error("a message of our own has a raw message")
	}
}

func TestCloseWaitsForWhatIsWorkedOn(t *testing.T) {
	t.Parallel()
	q := newQueue(t, bustest.Connect(t, bustest.Server(t)))
	waitForReports := q.progressReports(t)
	sub := q.subscriber(t, pubsub.SubscriberOptions{}, time.Second)
	messages := q.subscribe(t, sub)
	q.publish(t, "a", "b")
	m := receive(t, messages)
	closed := make(chan error)
	go func() { closed <- sub.Close() }()
	waitForReports(2) // the one at work is left alone, and goes on being reported
	select {
	case <-closed:
		t.Fatal("closed while a message was worked on")
	case <-m.Context().Done():
		t.Fatal("work was cut off at once")
	default:
	}
	m.Ack()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if _, open := <-messages; open {
		t.Error("another message was delivered")
	}
	if _, err := sub.Subscribe(t.Context(), "jobs"); !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("subscribing to a closed subscriber: %v", err)
	}
	bustest.Eventually(t, "the first is acknowledged", func() bool { return q.consumer(t).AckFloor.Stream == 1 })
}

func TestCloseGivesBackWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	q := newQueue(t, bustest.Connect(t, bustest.Server(t)))
	sub := q.subscriber(t, pubsub.SubscriberOptions{CloseTimeout: 10 * time.Millisecond}, time.Minute)
	messages := q.subscribe(t, sub)
	q.publish(t, "a")
	m := receive(t, messages)
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(m.Context()); !errors.Is(cause, pubsub.ErrClosed) {
		t.Errorf("the context ended with %v", cause)
	}
	again := receive(t, q.subscribe(t, q.subscriber(t, pubsub.SubscriberOptions{}, time.Minute)))
	again.Ack()
	if again.UUID != "a" {
		t.Errorf("got %s", again.UUID)
	}
}

func TestSubscriberMakesItsConsumerAgain(t *testing.T) {
	t.Parallel()
	q := newQueue(t, bustest.Connect(t, bustest.Server(t)))
	messages := q.subscribe(t, q.subscriber(t, pubsub.SubscriberOptions{}, 10*time.Second))
	q.publish(t, "a")
	receive(t, messages).Ack()
	bustest.Eventually(t, "acknowledged", func() bool { return q.isEmpty(t) })
	bustest.Eventually(t, "the slot asks again", func() bool { return q.consumer(t).NumWaiting == 1 })
	if err := q.stream.DeleteConsumer(bustest.Deadline(t), "worker"); err != nil {
		t.Fatal(err)
	}
	q.publish(t, "b")
	m := receive(t, messages)
	m.Ack()
	if m.UUID != "b" {
		t.Errorf("got %s", m.UUID)
	}
}

func TestPublisher(t *testing.T) {
	t.Parallel()
	q := newQueue(t, bustest.Connect(t, bustest.Server(t)))
	p := pubsub.NewPublisher(q.JetStream())
	m := message.NewMessage("id-1", []byte("x"))
	m.Metadata = message.Metadata{"ce-id": "1", "Nats-Expected-Last-Sequence": "99", "nats-rollup": "all",
		"Nats-Msg-Id": "other"}
	if err := p.Publish("jobs", m, m); err != nil { // the second is a duplicate
		t.Fatal(err)
	}
	if err := p.Publish("nowhere", m); err == nil {
		t.Error("published where no stream is")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish("jobs", m); !errors.Is(err, pubsub.ErrClosed) {
		t.Errorf("published after Close: %v", err)
	}
	info, err := q.stream.Info(bustest.Deadline(t))
	if err != nil || info.State.Msgs != 1 {
		t.Fatalf("%v messages stored, %v", info.State.Msgs, err)
	}
	got, err := q.stream.GetMsg(bustest.Deadline(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(nats.Header{"ce-id": {"1"}, "Nats-Msg-Id": {"id-1"}}, got.Header); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
}

func TestSubscriberNeedsAConsumer(t *testing.T) {
	t.Parallel()
	q := newQueue(t, bustest.Connect(t, bustest.Server(t)))
	if _, err := pubsub.NewSubscriber(q.JetStream(), pubsub.SubscriberOptions{}); err == nil {
		t.Error("no consumer, no error")
	}
	none := errors.New("there is none")
	sub, err := pubsub.NewSubscriber(q.JetStream(), pubsub.SubscriberOptions{
		Consumer: func(context.Context, string) (jetstream.Consumer, error) { return nil, none },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Subscribe(t.Context(), "jobs"); !errors.Is(err, none) {
		t.Errorf("error %v", err)
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
}

func TestSubscriberSurvivesTheServer(t *testing.T) {
	t.Parallel()
	addr, start := bustest.Restartable(t)
	s := start()
	c, err := bus.Connect(bustest.Deadline(t), bus.ConnOptions{URL: "nats://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	q := newQueue(t, c)
	messages := q.subscribe(t, q.subscriber(t, pubsub.SubscriberOptions{Concurrency: 2, ConfirmAck: true}, 2*time.Second))
	q.publish(t, "a")
	held := receive(t, messages)
	s.Shutdown()
	bustest.Eventually(t, "the connection is down", func() bool { return !c.Connected() })
	start()
	bustest.Eventually(t, "the connection is back", c.Connected)
	held.Ack()
	q.publish(t, "b")
	seen := make(map[string]bool)
	for !seen["b"] { // a may come again: its acknowledgement may have met the restart
		m := receive(t, messages)
		m.Ack()
		seen[m.UUID] = true
	}
	bustest.Eventually(t, "all done", func() bool { return q.isEmpty(t) })
}
