package retention_test

import (
	"context"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/retention"
)

// keeps runs a keeper of sessions of the last minute until the test ends.
func (w *world) keeps(id string, ix *index.Index) (deleted <-chan string) {
	w.t.Helper()
	reasons := make(chan string, 1)
	k := w.keeper(retention.KeeperOptions{ID: id, Deleter: w.deleter(retention.Options{}), Index: ix,
		Interval: 300 * time.Millisecond, OnDeleted: func(reason string) { reasons <- reason },
		Rules: map[string]retention.Rule{"": {MaxAge: time.Minute}}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = k.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
	return reasons
}

// A lease without an end is waited for from when it is seen first, not from when the server has stored it: with a clock
// that is ahead every lease would look old, and with one that is behind none would.
func TestLeaseExpiryUsesOneClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ix := w.index()
	kv, err := w.conn.JetStream().KeyValue(bustest.Deadline(t), "agent_deletions")
	w.must(err)
	_, err = kv.PutString(bustest.Deadline(t), "lease", "another")
	w.must(err)
	const ends = 2 * time.Second // of a keeper with this interval
	lease, err := kv.Get(bustest.Deadline(t), "lease")
	w.must(err)
	bustest.Eventually(t, "the lease is old", func() bool { return time.Since(lease.Created()) > ends })
	w.ended("s1", "", time.Hour, 1)
	began := time.Now()
	deleted := w.keeps("r1", ix)
	bustest.Within(t, deleted)
	if took := time.Since(began); took < ends {
		t.Errorf("the lease of another keeper was taken after %s", took)
	}
}

// Sessions are as old as the clock says by which they are the youngest: no wrong clock of the server, of the keeper's
// machine or of the runner that wrote the events deletes any.
func TestNoWrongClockDeletes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ix := w.index()
	w.ended("s1", "", time.Hour, 1)
	bustest.Eventually(t, "the index is there", func() bool { return len(ix.View().Entries) == 1 && !ix.View().Partial })
	k := w.keeper(retention.KeeperOptions{ID: "r1", Deleter: w.deleter(retention.Options{}), Index: ix,
		Rules: map[string]retention.Rule{"": {MaxAge: 30 * time.Minute}}})
	back := func() time.Time { return later().Add(-45 * time.Minute) }
	for name, clocks := range map[string][2]func() time.Time{"server": {later, back}, "machine": {back, later}} {
		k.SetTime(clocks[0], clocks[1])
		if n, err := k.Round(bustest.Deadline(t)); n != 0 || err != nil {
			t.Errorf("the clock of the %s is ahead: %d deleted, %v", name, n, err)
		}
	}
	w.ended("s2", "", 20_000*time.Hour, 1) // by a runner whose clock is behind
	bustest.Eventually(t, "both are there", func() bool { return len(ix.View().Entries) == 2 })
	k.SetTime(time.Now, time.Now)
	if n, err := k.Round(bustest.Deadline(t)); n != 0 || err != nil {
		t.Errorf("the clock of a runner is behind: %d deleted, %v", n, err)
	}
	k.SetTime(later, later)
	w.steady(later())
	if n, err := k.Round(bustest.Deadline(t)); n != 2 || err != nil {
		t.Errorf("sessions of an hour are kept: %d deleted, %v", n, err)
	}
}
