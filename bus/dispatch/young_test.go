package dispatch_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// next returns a call as a worker that is idle receives it, without a wait.
func next(t testing.TB, queue jetstream.Consumer) jetstream.Msg {
	t.Helper()
	batch, err := queue.FetchNoWait(1)
	if err != nil {
		t.Fatal(err)
	}
	return <-batch.Messages()
}

// untouched checks that an idle worker receives the next call at once, and that nobody has received it before.
func untouched(t testing.TB, queue jetstream.Consumer, call string) jetstream.Msg {
	t.Helper()
	msg := next(t, queue)
	if msg == nil {
		t.Fatalf("call %s is hidden from a worker", call)
	}
	md, err := msg.Metadata()
	if err != nil || md.NumDelivered != 1 || msg.Subject() != "agent.tool.gone.s1."+call {
		t.Errorf("%s is delivered for time %d, %v; want call %s, never delivered before", msg.Subject(), md.NumDelivered,
			err, call)
	}
	return msg
}

func TestAYoungCallIsLeftToTheNextWorker(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	queue := toolQueue(t, c, "gone")
	u := unserved(t, c, time.Hour)
	send(t, c, "gone", "c1", schemas.EffectUnsafe)
	if err := u.CheckAbsent(bustest.Deadline(t), "gone"); err != nil {
		t.Fatal(err)
	}
	untouched(t, queue, "c1")
	if got := answers(t, c); len(got) != 0 {
		t.Errorf("answered: %v", got)
	}
}

// A call that was lost with its worker is taken, and the younger one behind it is not.
func TestAYoungCallBehindALostOneIsLeft(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	queue := toolQueue(t, c, "gone")
	u := unserved(t, c, time.Hour)
	send(t, c, "gone", "c1", schemas.EffectUnsafe)
	take(t, queue)
	bustest.Eventually(t, "the lost call is answered", func() bool {
		if err := u.CheckAbsent(bustest.Deadline(t), "gone"); err != nil {
			t.Fatal(err)
		}
		return len(answers(t, c)) > 0
	})
	if got := answers(t, c)["c1"]; got != schemas.TextOutcomeUnknown {
		t.Errorf("the lost call is answered %q", got)
	}
	send(t, c, "gone", "c2", schemas.EffectUnsafe)
	take(t, queue)
	send(t, c, "gone", "c3", schemas.EffectUnsafe)
	if err := u.CheckAbsent(bustest.Deadline(t), "gone"); err != nil {
		t.Fatal(err)
	}
	if got, answered := answers(t, c)["c3"]; answered {
		t.Errorf("the young call is answered %q", got)
	}
	if info, err := queue.Info(bustest.Deadline(t)); err != nil || info.NumPending != 1 {
		t.Errorf("never delivered %v, %v, want 1", info, err)
	}
}

// Of the calls in a queue, those that are old enough are answered, and the others are not pulled.
func TestOnlyOldCallsArePulled(t *testing.T) {
	t.Parallel()
	const after = 300 * time.Millisecond
	c := bustest.New(t)
	queue := toolQueue(t, c, "gone")
	u := unserved(t, c, after)
	sent := map[schemas.CallKey]time.Time{}
	n := uint64(0)
	bustest.Eventually(t, "a call is answered", func() bool {
		n++
		key := schemas.NewCallKey(n)
		sent[key] = time.Now()
		send(t, c, "gone", key, schemas.EffectUnsafe)
		if err := u.CheckAbsent(bustest.Deadline(t), "gone"); err != nil {
			t.Fatal(err)
		}
		return len(answers(t, c)) > 0
	})
	got := answers(t, c)
	for key, text := range got {
		if age := time.Since(sent[key]); age < after || text != "no worker serves tool gone" {
			t.Errorf("call %s is answered %q at an age of at most %s", key, text, age)
		}
	}
	for i := uint64(len(got)) + 1; i <= n; i++ {
		if err := untouched(t, queue, string(schemas.NewCallKey(i))).DoubleAck(bustest.Deadline(t)); err != nil {
			t.Fatal(err) // without that, it would soon be delivered again
		}
	}
}

// A call whose answer could not be stored was not executed: the next attempt answers that, too.
func TestACallThatOnlyTheRunnerPulledIsNotUnknown(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	toolQueue(t, c, "gone")
	u := unserved(t, c, time.Millisecond)
	send(t, c, "gone", "c1", schemas.EffectUnsafe)
	accept := refuse(t, c)
	bustest.Eventually(t, "an answer is refused", func() bool {
		return u.CheckAbsent(bustest.Deadline(t), "gone") != nil
	})
	accept()
	bustest.Eventually(t, "the call is answered", func() bool {
		if err := u.CheckAbsent(bustest.Deadline(t), "gone"); err != nil {
			t.Fatal(err)
		}
		return len(answers(t, c)) > 0
	})
	if got := answers(t, c)["c1"]; got != "no worker serves tool gone" {
		t.Errorf("it is answered %q", got)
	}
}

// refuse makes the stream of commands refuse every message until accept is called.
func refuse(t testing.TB, c *bus.Conn) (accept func()) {
	t.Helper()
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	update := func(config jetstream.StreamConfig) {
		t.Helper()
		if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), config); err != nil {
			t.Fatal(err)
		}
	}
	config := stream.CachedInfo().Config
	full := config
	full.MaxBytes, full.Discard = 1, jetstream.DiscardNew
	update(full)
	return func() { update(config) }
}
