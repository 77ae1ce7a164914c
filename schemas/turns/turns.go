// Package turns shares what a process has little of: memory, or processors.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Turns bounds what is used at once for each key, such as a connection: who finds too little waits until it is its
// turn. Those who wait are served from both ends in turn, the oldest first, so that somebody who comes behind a crowd
// does not wait for all of it, and none waits for ever (as in package admission). A key takes memory only while
// somebody uses it or waits. Turns is safe for concurrent use.
type Turns[K comparable] struct {
	limit int
	mu    sync.Mutex
	of    map[K]*line
}

// line are the users of one key.
type line struct {
	free    int
	waiting []*waiter // oldest first
	newest  bool      // the newest is next
}

type waiter struct {
	units int
	ready chan struct{} // closed when it has them
}

// New returns Turns with so many units for each key.
func New[K comparable](limit int) *Turns[K] {
	return &Turns[K]{limit: limit, of: map[K]*line{}}
}

// Wait waits for n units of a key, or for all of them if it has fewer. To call release again does nothing. The error is
// that of ctx.
func (t *Turns[K]) Wait(ctx context.Context, key K, n int) (release func(), err error) {
	w := &waiter{min(n, t.limit), make(chan struct{})}
	t.mu.Lock()
	l := t.of[key]
	if l == nil {
		l = &line{free: t.limit}
		t.of[key] = l
	}
	l.waiting = append(l.waiting, w)
	t.serve(key, l)
	t.mu.Unlock()
	select {
	case <-w.ready: // even if ctx has ended
		return sync.OnceFunc(func() { t.release(key, w) }), nil
	default:
	}
	select {
	case <-w.ready:
		return sync.OnceFunc(func() { t.release(key, w) }), nil
	case <-ctx.Done():
		t.leave(key, w)
		return nil, ctx.Err()
	}
}

func (t *Turns[K]) release(key K, w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.of[key]
	l.free += w.units
	t.serve(key, l)
}

// leave takes off one who does not wait any more, and may have got its turn.
func (t *Turns[K]) leave(key K, w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.of[key]
	if at := slices.Index(l.waiting, w); at >= 0 {
		l.waiting = slices.Delete(l.waiting, at, at+1)
	} else {
		l.free += w.units
	}
	t.serve(key, l)
}

// serve serves those who wait, as many as there are units for. The caller holds the lock.
func (t *Turns[K]) serve(key K, l *line) {
	for len(l.waiting) > 0 {
		at := 0
		if l.newest {
			at = len(l.waiting) - 1
		}
		w := l.waiting[at]
		if w.units > l.free {
			return
		}
		l.waiting = slices.Delete(l.waiting, at, at+1)
		l.free -= w.units
		l.newest = !l.newest
		close(w.ready)
	}
	l.newest = false // nobody waits
	if l.free == t.limit {
		delete(t.of, key)
	}
}

// Idle reports whether nobody uses anything or waits.
func (t *Turns[K]) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of) == 0
}
