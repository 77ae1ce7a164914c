package bus_test

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
)

// queue is a work queue of its own for one test, with the subject jobs.
type queue struct {
	*bus.Conn
	stream jetstream.Stream
}

func newQueue(t *testing.T, c *bus.Conn) queue {
	t.Helper()
	s, err := c.JetStream().CreateStream(deadline(t), jetstream.StreamConfig{
		Name: "JOBS", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	return queue{c, s}
}

func (q queue) subscriber(t *testing.T, o bus.SubscriberOptions, ackWait time.Duration) *bus.Subscriber {
	t.Helper()
	o.Consumer = func(string) jetstream.ConsumerConfig {
		return jetstream.ConsumerConfig{Durable: "worker", AckWait: ackWait}
	}
	sub, err := bus.NewSubscriber(q.Conn, o)
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

func (q queue) subscribe(t *testing.T, sub *bus.Subscriber) <-chan *message.Message {
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
		if err := bus.NewPublisher(q.Conn).Publish("jobs", message.NewMessage(id, []byte("do "+id))); err != nil {
			t.Fatal(err)
		}
	}
}

func (q queue) isEmpty(t *testing.T) bool {
	info, err := q.stream.Info(deadline(t))
	return err == nil && info.State.Msgs == 0
}

func (q queue) consumer(t *testing.T) *jetstream.ConsumerInfo {
	t.Helper()
	c, err := q.stream.Consumer(deadline(t), "worker")
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
	case <-time.After(20 * time.Second):
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
	return func(n int) {
		t.Helper()
		for n > 0 {
			m, err := acks.NextMsgWithContext(deadline(t))
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
	q := newQueue(t, connect(t, startServer(t)))
	waitForReports := q.progressReports(t)
	messages := q.subscribe(t, q.subscriber(t, bus.SubscriberOptions{Concurrency: 2}, time.Second))
	q.publish(t, "a")
	m := receive(t, messages)
	waitForReports(5) // longer than the server waits for an acknowledgement
	select {
	case again := <-messages:
		t.Fatalf("%s was delivered again while it was worked on", again.UUID)
	default:
	}
	m.Ack()
	eventually(t, "the message is gone", func() bool { return q.isEmpty(t) })
	if n := q.consumer(t).Delivered.Consumer; n != 1 {
		t.Errorf("delivered %d times", n)
	}
}

func TestSubscriberTakesNoMoreThanItHasSlotsFor(t *testing.T) {
	q := newQueue(t, connect(t, startServer(t)))
	q.publish(t, "a", "b", "c", "d", "e")
	messages := q.subscribe(t, q.subscriber(t, bus.SubscriberOptions{Concurrency: 2, ConfirmAck: true}, 10*time.Second))
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
	eventually(t, "all done", func() bool { return q.isEmpty(t) })
}

func TestNackedMessagesComeAgainAndAreGivenUp(t *testing.T) {
	q := newQueue(t, connect(t, startServer(t)))
	terminated, err := q.NATS().SubscribeSync("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.JOBS.worker")
	if err != nil {
		t.Fatal(err)
	}
	var asked []uint64
	messages := q.subscribe(t, q.subscriber(t, bus.SubscriberOptions{
		MaxDeliveries: 3,
		NackDelay:     func(n uint64) time.Duration { asked = append(asked, n); return time.Duration(n) * time.Millisecond },
	}, 10*time.Second))
	q.publish(t, "a")
	for range 3 {
		receive(t, messages).Nack()
	}
	if _, err := terminated.NextMsgWithContext(deadline(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the message is gone", func() bool { return q.isEmpty(t) })
	if d := cmp.Diff([]uint64{1, 2}, asked); d != "" {
		t.Errorf("deliveries at which the delay was asked (-want +got):\n%s", d)
	}
}

func TestForeignMessagesAreDelivered(t *testing.T) {
	q := newQueue(t, connect(t, startServer(t)))
	messages := q.subscribe(t, q.subscriber(t, bus.SubscriberOptions{}, 10*time.Second))
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
			if _, err := q.JetStream().PublishMsg(deadline(t), tt.msg); err != nil {
				t.Fatal(err)
			}
			m := receive(t, messages)
			m.Ack()
			if m.UUID != tt.uuid || !bytes.Equal(m.Payload, tt.msg.Data) || m.Metadata["k"] != tt.msg.Header.Get("k") {
				t.Errorf("got %q %v %q", m.UUID, m.Metadata, m.Payload)
			}
			raw, ok := bus.RawMessage(m)
			if !ok || raw.Subject() != "jobs" {
				t.Errorf("raw message: %v", ok)
			}
		})
	}
	if _, ok := bus.RawMessage(message.NewMessage("x", nil)); ok {
		t.Error("a message of our own has a raw message")
	}
}

func TestCloseWaitsForWhatIsWorkedOn(t *testing.T) {
	q := newQueue(t, connect(t, startServer(t)))
	waitForReports := q.progressReports(t)
	sub := q.subscriber(t, bus.SubscriberOptions{}, time.Second)
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
	if _, err := sub.Subscribe(t.Context(), "jobs"); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("subscribing to a closed subscriber: %v", err)
	}
	eventually(t, "the first is acknowledged", func() bool { return q.consumer(t).AckFloor.Stream == 1 })
}

func TestCloseGivesBackWhatTakesTooLong(t *testing.T) {
	q := newQueue(t, connect(t, startServer(t)))
	sub := q.subscriber(t, bus.SubscriberOptions{CloseTimeout: 10 * time.Millisecond}, time.Minute)
	messages := q.subscribe(t, sub)
	q.publish(t, "a")
	m := receive(t, messages)
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(m.Context()); !errors.Is(cause, bus.ErrClosed) {
		t.Errorf("the context ended with %v", cause)
	}
	again := receive(t, q.subscribe(t, q.subscriber(t, bus.SubscriberOptions{}, time.Minute)))
	again.Ack()
	if again.UUID != "a" {
		t.Errorf("got %s", again.UUID)
	}
}

func TestSubscriberMakesItsConsumerAgain(t *testing.T) {
	q := newQueue(t, connect(t, startServer(t)))
	messages := q.subscribe(t, q.subscriber(t, bus.SubscriberOptions{}, 10*time.Second))
	q.publish(t, "a")
	receive(t, messages).Ack()
	eventually(t, "acknowledged", func() bool { return q.isEmpty(t) })
	eventually(t, "the slot asks again", func() bool { return q.consumer(t).NumWaiting == 1 })
	if err := q.stream.DeleteConsumer(deadline(t), "worker"); err != nil {
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
	q := newQueue(t, connect(t, startServer(t)))
	p := bus.NewPublisher(q.Conn)
	m := message.NewMessage("id-1", []byte("x"))
	m.Metadata = message.Metadata{"ce-id": "1", "Nats-Expected-Last-Sequence": "99", "nats-rollup": "all", "Nats-Msg-Id": "other"}
	if err := p.Publish("jobs", m, m); err != nil { // the second is a duplicate
		t.Fatal(err)
	}
	if err := p.Publish("nowhere", m); err == nil {
		t.Error("published where no stream is")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish("jobs", m); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("published after Close: %v", err)
	}
	info, err := q.stream.Info(deadline(t))
	if err != nil || info.State.Msgs != 1 {
		t.Fatalf("%v messages stored, %v", info.State.Msgs, err)
	}
	got, err := q.stream.GetMsg(deadline(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(nats.Header{"ce-id": {"1"}, "Nats-Msg-Id": {"id-1"}}, got.Header); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
}

func TestSubscriberNeedsADurableConsumer(t *testing.T) {
	q := newQueue(t, connect(t, startServer(t)))
	if _, err := bus.NewSubscriber(q.Conn, bus.SubscriberOptions{}); err == nil {
		t.Error("no consumer, no error")
	}
	sub, err := bus.NewSubscriber(q.Conn, bus.SubscriberOptions{
		Consumer: func(string) jetstream.ConsumerConfig { return jetstream.ConsumerConfig{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Subscribe(t.Context(), "jobs"); err == nil {
		t.Error("no durable name, no error")
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
}

func TestSubscriberSurvivesTheServer(t *testing.T) {
	addr, start := restartable(t)
	s := start()
	c, err := bus.Connect(deadline(t), bus.ConnOptions{URL: "nats://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	q := newQueue(t, c)
	messages := q.subscribe(t, q.subscriber(t, bus.SubscriberOptions{Concurrency: 2, ConfirmAck: true}, 2*time.Second))
	q.publish(t, "a")
	held := receive(t, messages)
	s.Shutdown()
	eventually(t, "the connection is down", func() bool { return !c.Connected() })
	start()
	eventually(t, "the connection is back", c.Connected)
	held.Ack()
	q.publish(t, "b")
	seen := make(map[string]bool)
	for !seen["b"] { // a may come again: its acknowledgement may have met the restart
		m := receive(t, messages)
		m.Ack()
		seen[m.UUID] = true
	}
	eventually(t, "all done", func() bool { return q.isEmpty(t) })
}
