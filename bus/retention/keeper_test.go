package retention_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/schemas"
)

// ended appends a run to a session's log that ended a while ago, and said so many bytes.
// It was stored longer ago than any rule keeps sessions, as the clocks of [world.keeper] say.
func (w *world) ended(session, profile string, ago time.Duration, bytes int, more ...schemas.EventData) {
	w.t.Helper()
	data := []schemas.EventData{&schemas.AgentStart{Config: &schemas.RunConfig{Profile: profile}},
		&schemas.ErrorEvent{Code: "x", Message: strings.Repeat("x", bytes)}, &schemas.AgentEnd{}}
	l, err := w.open(session)
	w.must(err)
	for i, d := range append(data, more...) {
		w.must(l.Append(bustest.Deadline(w.t), schemas.Event{Session: session, Seq: uint64(i + 1), Source: "/t",
			Time: later().Add(-ago), Data: d}))
	}
	w.must(l.Flush(bustest.Deadline(w.t)))
}

// later is the time of the clocks of [world.keeper].
func later() time.Time { return time.Now().Add(10_000 * time.Hour) }

// keeper returns a keeper whose clocks say that everything was stored long ago, and have not jumped there.
func (w *world) keeper(o retention.KeeperOptions) *retention.Keeper {
	w.steady(later())
	k := retention.NewKeeper(o)
	k.SetTime(later, later)
	return k
}

// Sessions go by age, and by the size of all of a profile, the oldest first and a few at a time; what is under way or
// waits stays, however old.
func TestKeeperAppliesRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hour := time.Hour
	w.ended("old", "", 3*hour, 10)
	_, err := w.conn.Events().Publish(bustest.Deadline(t), w.conn.Subjects().Event("old"), []byte("a server's answer"))
	w.must(err)
	w.ended("young", "", hour, 10)
	w.ended("running", "", 9*hour, 10, &schemas.AgentStart{})
	w.ended("queued", "", 9*hour, 10, &schemas.CommandAccepted{CommandID: "c", Kind: schemas.CommandPrompt,
		Queue: schemas.QueuePrompts})
	w.ended("timer", "", 9*hour, 10)
	w.must(bus.NewTimers(w.conn).Schedule(bustest.Deadline(t), "timer", time.Now().Add(hour),
		schemas.Timer{Name: "later"}))
	w.publish(w.conn.Subjects().Schedule("old", "later"), `{}`) // no timer, but what a server answered
	w.ended("forever", "kept", 999*hour, 10)
	for i := range 5 { // 0 is the youngest
		w.ended(fmt.Sprintf("big%d", 4-i), "big", hour, 20<<10)
	}
	ix := w.index()
	left := func() (names []string) {
		for info, err := range w.store.Sessions(bustest.Deadline(t)) {
			w.must(err)
			names = append(names, info.Session)
		}
		return names
	}
	bustest.Eventually(t, "the index is there", func() bool { return len(ix.View().Entries) == 11 && !ix.View().Partial })
	var why []string
	keeper := w.keeper(retention.KeeperOptions{ID: "r1", Deleter: w.deleter(retention.Options{}), Index: ix,
		PerRound: 2, OnDeleted: func(reason string) { why = append(why, reason) },
		Rules: map[string]retention.Rule{"": {MaxAge: 2 * hour}, "kept": {}, "big": {MaxBytes: 50 << 10}}})
	for round := 1; len(left()) > 7; round++ {
		n, err := keeper.Round(bustest.Deadline(t))
		if err != nil || n > 2 || round > 100 {
			t.Fatalf("round %d: %d sessions, %v", round, n, err)
		}
	}
	want := []string{"big0", "big1", "forever", "queued", "running", "timer", "young"}
	for range 5 { // nothing else goes
		if _, err := keeper.Round(bustest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
	if got := left(); !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
	slices.Sort(why)
	if !slices.Equal(why, []string{"age", "size", "size", "size"}) {
		t.Errorf("reasons %v", why)
	}
}

// One keeper of several works, and another one when that one has stopped.
func TestOneKeeperWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ix := w.index()
	deleted := make(chan string, 100)
	run := func(id string) (stop func()) {
		k := w.keeper(retention.KeeperOptions{ID: id, Deleter: w.deleter(retention.Options{}), Index: ix,
			Interval: time.Second, OnDeleted: func(string) { deleted <- id },
			Rules: map[string]retention.Rule{"": {MaxAge: time.Minute}}})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = k.Run(ctx) }()
		return func() { cancel(); <-done }
	}
	one := run("r1")
	w.ended("s1", "", time.Hour, 1)
	first := <-deleted
	two := run("r2")
	defer two()
	for i := range 2 {
		w.ended(fmt.Sprintf("t%d", i), "", time.Hour, 1)
		if got := <-deleted; got != first {
			t.Errorf("%s deleted while %s has the lease", got, first)
		}
	}
	one()
	w.ended("s2", "", time.Hour, 1)
	if got := <-deleted; got != "r2" {
		t.Errorf("%s deleted", got)
	}
}
