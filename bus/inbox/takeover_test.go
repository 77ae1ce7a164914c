package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// receiveAndDie is a runner that has received everything and is gone before it has looked at anything. It returns the
// deliveries.
func receiveAndDie(t *testing.T, c *bus.Conn, messages int) []jetstream.Msg {
	t.Helper()
	filters := make([]string, bustest.SmallPartitions)
	for p := range filters {
		filters[p] = fmt.Sprintf("agent.cmd.%d.*.*", p)
	}
	consumer, err := c.JetStream().CreateConsumer(bustest.Deadline(t), schemas.StreamCommands, jetstream.ConsumerConfig{
		Durable: "dead_1", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour, FilterSubjects: filters,
	})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := consumer.Fetch(messages)
	if err != nil {
		t.Fatal(err)
	}
	var got []jetstream.Msg
	for m := range batch.Messages() {
		got = append(got, m)
	}
	if len(got) != messages {
		t.Fatalf("%d of %d messages were received: %v", len(got), messages, batch.Error())
	}
	return got
}

// What a lost runner had received comes to the next one at once and in order, and what was sent later does not pass it.
func TestCommandsOfALostRunnerComeAtOnceAndInOrder(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	const sessions = 20
	text := func(i int) string { return fmt.Sprintf("%06d", i) }
	for i := range sessions {
		bustest.Send(t, c, fmt.Sprintf("s%d", i), text(0))
		bustest.Send(t, c, fmt.Sprintf("s%d", i), text(1))
	}
	receiveAndDie(t, c, 2*sessions)
	l := newLedger()
	began := time.Now()
	bustest.RunInbox(t, bustest.Connect(t, s), bustest.Fast("b"), l.handler("b"))
	for i := range sessions {
		bustest.Send(t, c, fmt.Sprintf("s%d", i), text(2))
	}
	l.check(t, c, sessions, 3)
	if took := time.Since(began); took > 2*time.Second+raceAllowance {
		t.Errorf("it took %s", took)
	}
}

// The acknowledgement of a runner that has lost its partition settles nothing.
func TestAStaleAcknowledgementSettlesNothing(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	bustest.Send(t, c, "s1", "stay")
	stale := receiveAndDie(t, c, 1)
	rest := make(chan struct{})
	h := &fakeHandler{deliver: func(context.Context, schemas.Command, func()) error { <-rest; return nil }}
	bustest.RunInbox(t, bustest.Connect(t, s), bustest.Fast("b"), h)
	bustest.Eventually(t, "delivery", func() bool { return h.total() == 1 })
	if err := stale[0].DoubleAck(bustest.Deadline(t)); err == nil {
		t.Error("the stale acknowledgement was answered")
	}
	if n := bustest.Queued(t, c); n != 1 {
		t.Errorf("%d messages are queued, want 1", n)
	}
	close(rest)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
}

// keeping is a handler whose sessions are its own, or not.
type keeping struct {
	fakeHandler
	keeps atomic.Bool
	asked atomic.Int32
}

func (k *keeping) Owns(context.Context, string) error {
	k.asked.Add(1)
	if k.keeps.Load() {
		return nil
	}
	return schemas.ErrConflict
}

// loseConsumer deletes the consumer of a runner, as another one does that takes over.
func loseConsumer(t *testing.T, c *bus.Conn) {
	t.Helper()
	for _, name := range consumers(t, c) {
		if err := c.JetStream().DeleteConsumer(bustest.Deadline(t), schemas.StreamCommands, name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWorkGoesOnIfTheSessionIsStillTheRunnersOwn(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	rest := make(chan struct{})
	h := &keeping{}
	h.keeps.Store(true)
	h.deliver = func(ctx context.Context, _ schemas.Command, entered func()) error {
		entered()
		select {
		case <-rest:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	bustest.RunInbox(t, c, bustest.Fast("r1"), h)
	bustest.Send(t, c, "s1", "wake")
	bustest.Eventually(t, "delivery", func() bool { return h.total() == 1 })
	loseConsumer(t, c)
	bustest.Eventually(t, "the handler is asked", func() bool { return h.asked.Load() == 1 })
	bustest.Send(t, c, "s1", "steer")
	bustest.Eventually(t, "the inbox is read again", func() bool { return h.total() == 2 })
	close(rest)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	if got := h.texts("s1"); !slices.Equal(got, []string{"wake", "steer"}) {
		t.Errorf("delivered %v", got)
	}
}

// Work on a session that another runner may have had is cut off and begun anew, in its place of the order.
func TestWorkIsBegunAnewIfTheSessionMayBeAnothers(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var cut atomic.Int32
	h := &keeping{}
	h.deliver = func(ctx context.Context, cmd schemas.Command, entered func()) error {
		if cut.Load() > 0 {
			return nil
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), inbox.ErrMoved) {
			t.Errorf("cut off for %v", context.Cause(ctx))
		}
		cut.Add(1)
		return context.Cause(ctx)
	}
	in, _ := bustest.RunInbox(t, c, bustest.Fast("r1"), h)
	bustest.Send(t, c, "s1", "first")
	bustest.Send(t, c, "s1", "second")
	bustest.Eventually(t, "both are received", func() bool { return h.total() == 1 && in.InFlight() == 2 })
	loseConsumer(t, c)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	if got := h.texts("s1"); !slices.Equal(got, []string{"first", "first", "second"}) {
		t.Errorf("delivered %v", got)
	}
}

// What a runner gives up because another one has its session is delivered again, and no failure.
func TestALostSessionIsNoFailure(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	l := newLedger()
	var log bustest.Log
	o := bustest.Fast("a")
	o.Logger, o.MaxDeliver = log.Logger(), 2
	var tries atomic.Int64
	bustest.RunInbox(t, c, o, &fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, entered func()) error {
		if tries.Add(1) <= 4 {
			return fmt.Errorf("append: %w", schemas.ErrConflict)
		}
		l.take("a", cmd)
		return nil
	}})
	bustest.Send(t, c, "s0", "000000")
	l.check(t, c, 1, 1)
	if got := log.String(); strings.Contains(got, "level=ERROR") {
		t.Errorf("the log says:\n%s", got)
	}
}

// A command that kills one runner after the other is given up, and one that was only there when it happened is not.
func TestACommandThatKillsItsRunnersIsGivenUp(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	const most = 4
	bustest.Send(t, c, "poison", "poison")
	bustest.Send(t, c, "innocent", "innocent")
	var mu sync.Mutex
	begun := map[string]int{}
	var rejected atomic.Pointer[schemas.CommandRejected]
	for life := 0; rejected.Load() == nil; life++ {
		if life > 3*most {
			t.Fatalf("runners have died %d times: begun %v", life, begun)
		}
		conn := bustest.Connect(t, s)
		died := make(chan struct{})
		var once sync.Once
		h := &fakeHandler{
			deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
				mu.Lock()
				begun[cmd.Session]++
				mu.Unlock()
				if cmd.Session == "poison" {
					once.Do(func() { conn.NATS().Close(); close(died) }) // the process is gone: nobody receives anything of it
				}
				<-ctx.Done()
				return context.Cause(ctx)
			},
			reject: func(session string, r schemas.CommandRejected) error {
				rejected.Store(&r)
				once.Do(func() { close(died) })
				return nil
			},
		}
		o := bustest.Fast(fmt.Sprintf("r%d", life))
		o.MaxDeliver, o.StopTimeout, o.Takeover = most, 10*time.Millisecond, inbox.MinTakeover
		in, err := inbox.New(conn, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = in.Run(ctx, h) }()
		select {
		case <-died:
		case <-time.After(30 * time.Second):
			t.Fatalf("life %d: neither killed nor given up; begun %v", life, begun)
		}
		cancel()
		<-ended
	}
	r := rejected.Load()
	if r.Code != schemas.RejectDelivery || !strings.Contains(r.Reason, "runners") {
		t.Errorf("rejected with %+v", r)
	}
	if begun["poison"] != most {
		t.Errorf("the poisonous command was begun %d times, want %d", begun["poison"], most)
	}
	if dead := lastDead(t, c, "poison"); string(dead.Data) != "poison" {
		t.Errorf("dead letter %q", dead.Data)
	}
	l := newLedger()
	bustest.RunInbox(t, bustest.Connect(t, s), bustest.Fast("last"), l.handler("last"))
	bustest.Eventually(t, "the innocent command is taken", func() bool {
		return l.took("innocent") == 1 && bustest.Queued(t, c) == 0
	})
}

// A server that is restarted has forgotten the consumers. What is at work goes on, and nothing is lost.
func TestInboxOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	addr, again := bustest.Restartable(t)
	server := again()
	c := bustest.Dial(t, bus.ConnOptions{URL: "nats://" + addr})
	bustest.Setup(t, c, streams.Options{Partitions: bustest.SmallPartitions})
	rest := make(chan struct{})
	h := &keeping{}
	h.keeps.Store(true)
	h.deliver = func(ctx context.Context, _ schemas.Command, entered func()) error {
		entered()
		select {
		case <-rest:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	bustest.RunInbox(t, c, bustest.Fast("r1"), h)
	bustest.Send(t, c, "s1", "before")
	bustest.Eventually(t, "delivery", func() bool { return h.total() == 1 })
	server.Shutdown()
	again()
	bustest.Eventually(t, "the connection is back",
		func() bool { return c.NATS().Stats().Reconnects > 0 && c.Connected() })
	bustest.Send(t, c, "s1", "after")
	bustest.Eventually(t, "the inbox is read again", func() bool { return h.total() == 2 })
	close(rest)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	if got := h.texts("s1"); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("delivered %v", got)
	}
}
