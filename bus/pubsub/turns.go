package pubsub

import (
	"context"
	"sync"
	"time"
)

// A pull request waits for a message, and so may the end of its subscription: first for a short time, and ever longer
// while none come, see [SubscriberOptions.LongestPull].
const (
	firstPull          = 100 * time.Millisecond
	defaultLongestPull = time.Second
)

// turns say how many slots of a subscription ask the server for messages at once. A slot asks when it has a turn. There
// are as many as slots while messages come, so that no slot waits for another one's request, and a single one when none
// do: an idle subscription asks for all of its slots together. It may be used concurrently.
type turns struct {
	free chan struct{}

	mu   sync.Mutex
	n    int           // in all: free, and with those that ask
	pull time.Duration // how long the next request waits
	last time.Duration // how long one waits at most
}

func newTurns(slots int, longest time.Duration) *turns {
	t := &turns{free: make(chan struct{}, slots), n: 1, pull: min(firstPull, longest), last: longest}
	t.free <- struct{}{}
	return t
}

// take waits for a turn, and says how long its request shall wait. It reports false if stop ended first.
func (t *turns) take(stop context.Context) (pull time.Duration, ok bool) {
	select {
	case <-t.free:
	case <-stop.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pull, stop.Err() == nil
}

// more gives a turn back that has brought a message, and adds another one if there are fewer than slots.
func (t *turns) more() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pull = min(firstPull, t.last)
	t.free <- struct{}{}
	if t.n < cap(t.free) {
		t.n++
		t.free <- struct{}{}
	}
}

// fewer gives a turn back that has brought nothing, for good unless it is the last.
func (t *turns) fewer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n > 1 {
		t.n--
		return
	}
	t.pull = min(2*t.pull, t.last)
	t.free <- struct{}{}
}
