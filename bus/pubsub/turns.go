package pubsub

import (
	"context"
	"sync"
	"time"
)

// The expiry of pull requests. It doubles while no messages arrive, up to [SubscriberOptions.LongestPull], because the
// end of a subscription waits for pending requests.
const (
	firstPull          = 100 * time.Millisecond
	defaultLongestPull = time.Second
)

// turns limits how many slots of a subscription have a pull request pending. A slot needs a turn to pull. While
// messages arrive there are as many turns as slots, so that no slot waits for another one's request. While none arrive
// there is a single turn, so an idle subscription has one request pending. It may be used concurrently.
type turns struct {
	free chan struct{}

	mu   sync.Mutex
	n    int           // turns, free or taken
	pull time.Duration // expiry of the next request
	last time.Duration // longest expiry
}

func newTurns(slots int, longest time.Duration) *turns {
	t := &turns{free: make(chan struct{}, slots), n: 1, pull: min(firstPull, longest), last: longest}
	t.free <- struct{}{}
	return t
}

// take waits for a turn and returns the expiry of its request. ok is false if stop has ended first.
func (t *turns) take(stop context.Context) (pull time.Duration, ok bool) {
	select {
	case <-t.free:
	case <-stop.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pull, stop.Err() == nil
}

// more releases a turn whose request has brought a message, and adds a turn if there are fewer than slots.
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

// fewer removes a turn whose request has brought no message, or releases it if it is the last one.
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
