package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// A server restart in the middle of a reply loses the updates so far, which are in memory, and all subscriptions. The
// events must continue without a gap or a repetition.
func TestWatchSurvivesServerRestart(t *testing.T) {
	t.Parallel()
	addr, again := bustest.Restartable(t)
	server := again()
	c := bustest.Dial(t, bus.ConnOptions{URL: "nats://" + addr})
	bustest.Setup(t, c, streams.Options{Partitions: bustest.SmallPartitions})
	a := newAuthor(t, c, "s1")
	a.commit(&schemas.AgentStart{})
	w := watch(t, connect(t, "nats://"+addr).Session("s1"), 1)
	w.want("1 agent_start")
	m := a.begin()
	a.say(m, "one ")
	w.want("2 message_start", "2.1 one ")
	for range 2 {
		server.Shutdown()
		server = again()
		bustest.Eventually(t, "the author reaches the server", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.Events().Stream(ctx, schemas.StreamEvents)
			return err == nil
		})
		bustest.Setup(t, c, streams.Options{Partitions: bustest.SmallPartitions}) // as runners do
		n := a.updates[m] + 1
		a.say(m, fmt.Sprint(n))
		w.want(fmt.Sprintf("2.%d %d", n, n))
		seq := a.commit(&schemas.QueueUpdate{})
		w.want(fmt.Sprintf("%d queue_update", seq))
	}
	a.end(m, "one 23")
	w.want("5 message_end")
}

// Events written while the reader is slow and the connection is lost arrive in order, each once.
func TestSlowReaderMissesNothing(t *testing.T) {
	t.Parallel()
	server, a, _ := start(t)
	c := connect(t, server.ClientURL())
	c.Keep(50)
	w := watch(t, c.Session("s1"), 1)
	a.commit(&schemas.AgentStart{})
	w.want("1 agent_start")
	m := a.begin()
	more := func() {
		for range 200 {
			a.say(m, "x")
			a.commit(&schemas.QueueUpdate{})
		}
	}
	more()
	w.want("2 message_start")
	events, updates := uint64(2), uint64(0)
	for read := 0; events < a.seq || updates < a.updates[m]; read++ {
		if read == 30 { // now a part fits into the queue; what was dropped is older than that
			more()
		}
		item, ok := <-w.items
		if !ok {
			t.Fatalf("the loop ended with %v", w.err)
		}
		switch item {
		case fmt.Sprintf("%d queue_update", events+1):
			events++
		case fmt.Sprintf("%d.%d x", m, updates+1):
			updates++
		default:
			t.Fatalf("got %q after event %d and update %d", item, events, updates)
		}
	}
	a.say(m, "live again")
	w.want(fmt.Sprintf("%d.%d live again", m, updates+1))
}

func TestTwoClientsSeeTheSame(t *testing.T) {
	t.Parallel()
	server, a, s := start(t)
	one, two := watch(t, s, 1), watch(t, connect(t, server.ClientURL()).Session("s1"), 1)
	m := a.begin()
	one.want("1 message_start")
	two.want("1 message_start")
	a.say(m, "hello")
	one.want("1.1 hello")
	two.want("1.1 hello")
	a.end(m, "hello")
	one.want("2 message_end")
	two.want("2 message_end")
}

// A loop that has ended leaves no subscription and no consumer behind.
func TestEndedLoopLeavesNoSubscriptionOrConsumer(t *testing.T) {
	t.Parallel()
	server, a, _ := start(t)
	c := connect(t, server.ClientURL())
	a.begin()
	a.say(1, "x")
	for range 10 {
		for _, err := range c.Session("s1").Watch(t.Context(), 1) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		n := 0
		for _, err := range c.Session("s1").Watch(t.Context(), 1) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 2 {
				break
			}
		}
	}
	bustest.Eventually(t, "no subscription is left", func() bool {
		return c.NATS().NumSubscriptions() <= 1 // that of replies to requests
	})
	begun := time.Now()
	bustest.Eventually(t, "no consumer is left", func() bool {
		return consumers(t, a.c.JetStream(), schemas.StreamEvents)+consumers(t, a.c.JetStream(), schemas.StreamUpdates) == 0
	})
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the server has deleted them by itself, after %s", took)
	}
}

func consumers(t *testing.T, js jetstream.JetStream, stream string) int {
	t.Helper()
	s, err := js.Stream(bustest.Deadline(t), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Consumers
}

// The stream of updates is in memory: after a server restart it does not exist until a runner creates it. Until then
// updates arrive live only.
func TestUpdatesWithoutTheirStream(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	m := a.begin()
	if err := a.c.JetStream().DeleteStream(bustest.Deadline(t), schemas.StreamUpdates); err != nil {
		t.Fatal(err)
	}
	w := watch(t, s, 1)
	w.want("1 message_start")
	header, payload, err := schemas.EncodeUpdate(a.delta(m, 1, "live"))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.c.NATS().PublishMsg(&nats.Msg{Subject: a.c.Subjects().LiveUpdate("s1"), Header: header,
		Data: payload}); err != nil {
		t.Fatal(err)
	}
	w.want("1.1 live")
}
