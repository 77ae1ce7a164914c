package bus_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// firedTimers collects the timers that an inbox delivers, and the time of each delivery.
type firedTimers struct {
	bustest.NoHost
	mu  sync.Mutex
	got []schemas.Command
	at  []time.Time
}

func (f *firedTimers) Deliver(_ context.Context, cmd schemas.Command, _ func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got, f.at = append(f.got, cmd), append(f.at, time.Now())
	return nil
}

func (f *firedTimers) Reject(context.Context, string, schemas.CommandRejected) error { return nil }

func (f *firedTimers) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, cmd := range f.got {
		names = append(names, cmd.Session+"/"+cmd.Data.(*schemas.Timer).Name)
	}
	return names
}

func TestTimerIsDeliveredWhenDue(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var fired firedTimers
	bustest.RunInbox(t, c, bustest.Fast("r1"), &fired) // reads every partition by its own filter
	timers := bus.NewTimers(c)
	due := time.Now().Add(300 * time.Millisecond)
	want := schemas.Timer{Name: "run_deadline", RunID: "run1"}
	for _, session := range []string{"s1", "s2", "s3"} {
		if err := timers.Schedule(bustest.Deadline(t), session, due, want); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "all fire", func() bool { return len(fired.names()) == 3 })
	fired.mu.Lock()
	defer fired.mu.Unlock()
	for i, cmd := range fired.got {
		if d := cmp.Diff(&want, cmd.Data); d != "" {
			t.Errorf("timer of %s (-want +got):\n%s", cmd.Session, d)
		}
		if fired.at[i].Before(due) {
			t.Errorf("timer of %s fired %s early", cmd.Session, due.Sub(fired.at[i]))
		}
		if cmd.ID == "" || cmd.ID != fired.got[0].ID {
			t.Errorf("timer of %s has the id %q", cmd.Session, cmd.ID)
		}
	}
}

func TestTimerIsReplacedAndCanceled(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var fired firedTimers
	bustest.RunInbox(t, c, bustest.Fast("r1"), &fired)
	timers := bus.NewTimers(c)
	set := func(name string, d time.Duration) {
		t.Helper()
		if err := timers.Schedule(bustest.Deadline(t), "s1", time.Now().Add(d),
			schemas.Timer{Name: name, RunID: "run1"}); err != nil {
			t.Fatal(err)
		}
	}
	set("replaced", 300*time.Millisecond)
	set("replaced", time.Hour)
	set("canceled", 300*time.Millisecond)
	if err := timers.Cancel(bustest.Deadline(t), "s1", "canceled"); err != nil {
		t.Fatal(err)
	}
	if err := timers.Cancel(bustest.Deadline(t), "s1", "never-set"); err != nil {
		t.Errorf("cancel a timer that is not set: %v", err)
	}
	set("last", 400*time.Millisecond)
	bustest.Eventually(t, "the last fires", func() bool { return len(fired.names()) > 0 })
	if got := fired.names(); len(got) != 1 || got[0] != "s1/last" {
		t.Errorf("fired %v", got)
	}
	bustest.Eventually(t, "the inbox is empty", func() bool { return bustest.Queued(t, c) == 0 })
	waiting := func(name string) bool {
		set, err := bustest.TimerWaits(bustest.Deadline(t), c, "s1", name)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	if !waiting("replaced") || waiting("canceled") || waiting("last") {
		t.Error("the replaced timer is not the only one that is stored")
	}
}

func TestTimerInThePastFiresAtOnce(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var fired firedTimers
	bustest.RunInbox(t, c, bustest.Fast("r1"), &fired)
	err := bus.NewTimers(c).Schedule(bustest.Deadline(t), "s1", time.Now().Add(-time.Hour), schemas.Timer{Name: "late"})
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "it fires", func() bool { return len(fired.names()) == 1 })
}

// A timer for a time that the server cannot count to, in 2262, does not fire at once.
func TestTimerOfAFarTime(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	far := time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := bus.NewTimers(c).Schedule(bustest.Deadline(t), "s1", far, schemas.Timer{Name: "approval-c2"}); err != nil {
		t.Fatal(err)
	}
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamTimers)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(bustest.Deadline(t), ">")
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse("@at "+time.RFC3339Nano, m.Header.Get(jetstream.ScheduleHeader))
	if err != nil || at.Year() != 2262 || at.UnixNano() < 0 {
		t.Errorf("the schedule is %q, %v", m.Header.Get(jetstream.ScheduleHeader), err)
	}
}

func TestTimerRejectsIllegalNames(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	timers := bus.NewTimers(c)
	if err := timers.Schedule(bustest.Deadline(t), "s1", time.Now(), schemas.Timer{Name: "a.b"}); !errors.Is(err,
		schemas.ErrSubject) {
		t.Errorf("set: %v, want ErrSubject", err)
	}
	if err := timers.Cancel(bustest.Deadline(t), "", "x"); !errors.Is(err, schemas.ErrSubject) {
		t.Errorf("cancel: %v, want ErrSubject", err)
	}
}
