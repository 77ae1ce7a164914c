package retention_test

import (
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/retention"
)

// steady makes keepers believe a time, as if one had worked for long.
func (w *world) steady(at time.Time) {
	w.t.Helper()
	w.publish("$KV.agent_deletions.clock", `{"time":"`+at.Format(time.RFC3339Nano)+`"}`)
}

const day = 24 * time.Hour

// watch is a keeper of sessions of the last thirty days, where server and machine have one clock.
type watch struct {
	*world
	at    time.Time // of the clock
	index *index.Index
	log   bustest.Log
	k     *retention.Keeper
}

// watched returns a keeper that has worked for long, and sessions of which nothing was stored for such a time.
func watched(t *testing.T, idle ...time.Duration) *watch {
	w := &watch{world: newWorld(t), at: later()}
	w.index = w.world.index()
	for i, ago := range idle {
		w.ended("s"+string(rune('0'+i)), "", ago, 1)
	}
	w.known(len(idle))
	w.steady(w.at)
	w.starts("r1")
	return w
}

// known waits until the index has this number of sessions.
func (w *watch) known(n int) {
	w.t.Helper()
	bustest.Eventually(w.t, "the index is there", func() bool {
		view := w.index.View()
		return len(view.Entries) == n && !view.Partial
	})
}

// starts starts a keeper in place of the one before.
func (w *watch) starts(id string) {
	w.k = retention.NewKeeper(retention.KeeperOptions{ID: id, Deleter: w.deleter(retention.Options{}), Index: w.index,
		Interval: time.Hour, Logger: w.log.Logger(), Rules: map[string]retention.Rule{"": {MaxAge: 30 * day},
			"short": {MaxAge: time.Hour}, "big": {MaxBytes: 1}}})
	clock := func() time.Time { return w.at }
	w.k.SetTime(clock, clock)
}

// deletes checks how many sessions a round deletes.
func (w *watch) deletes(want int) {
	w.t.Helper()
	if n, err := w.k.Round(bustest.Deadline(w.t)); n != want || err != nil {
		w.t.Errorf("%d sessions deleted, %v, want %d", n, err, want)
	}
}

// passes lets time pass, in rounds, and returns how many sessions they delete.
func (w *watch) passes(d time.Duration) (deleted int) {
	w.t.Helper()
	for end := w.at.Add(d); w.at.Before(end); {
		w.at = w.at.Add(min(end.Sub(w.at), 4*time.Hour))
		n, err := w.k.Round(bustest.Deadline(w.t))
		w.must(err)
		deleted += n
	}
	return deleted
}
