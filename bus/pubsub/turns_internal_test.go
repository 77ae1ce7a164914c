package pubsub

import (
	"context"
	"testing"
	"time"
)

// All slots ask while calls come, and one when none do, ever more rarely.
func TestTurns(t *testing.T) {
	const slots = 3
	turns := newTurns(slots, defaultLongestPull)
	take := func() (pull time.Duration) {
		t.Helper()
		if len(turns.free) == 0 {
			t.Fatal("no slot has a turn")
		}
		pull, ok := turns.take(t.Context())
		if !ok {
			t.Fatal("stopped")
		}
		return pull
	}
	for _, want := range []int{2, 3, 3, 3} {
		if pull := take(); pull != firstPull {
			t.Errorf("a request waits %s", pull)
		}
		turns.more()
		if len(turns.free) != want {
			t.Errorf("after a call %d slots may ask, want %d", len(turns.free), want)
		}
	}
	for _, want := range []time.Duration{1, 1, 1, 2, 4, 8, 10, 10} {
		if pull := take(); pull != want*100*time.Millisecond {
			t.Errorf("a request waits %s, want %d00ms", pull, want)
		}
		turns.fewer()
	}
	if len(turns.free) != 1 {
		t.Errorf("without calls %d slots may ask", len(turns.free))
	}
	take()
	turns.more()
	if pull := take(); pull != firstPull {
		t.Errorf("after a call a request waits %s", pull)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, ok := turns.take(stopped); ok {
		t.Error("a turn after the end")
	}
}
