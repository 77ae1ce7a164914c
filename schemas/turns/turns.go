// Package turns shares what a process has little of: memory, or processors.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Turns bounds what is used at once for each key, such as a connection: who finds too little waits until it is its
// turn. Those who wait are served from both ends in turn, the oldest first, so that somebody who comes behind a crowd
// does not wait for all of it, and none waits for ever (as in package admission). Somebody for whom what is free is not
// enough does not keep it from those who need less. A key takes memory only while somebody uses it or waits. Turns is
// safe for concurrent use.
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
	due     *waiter   // the one of them whose turn it is, nil if it is nobody's
	spare   int       // how much others may take before due, so that it does not wait for them
}

type waiter struct {
	units  int
	ready  chan struct{} // closed when it has them
	before *waiter       // whose turn it was when this one was served
}

// New returns Turns with so many units for each key.
func New[K comparable](limit int) *Turns[K] {
	return &Turns[K]{limit: limit, of: map[K]*line{}}
}

// Wait waits for n units of a key, or for all of them if it has fewer. To call release again does nothing. The error is
// that of ctx.
func (t *Turns[K]) Wait(ctx context.Context, key K, n int) (release func(), err error) {
	w := &waiter{units: min(n, t.limit), ready: make(chan struct{})}
	t.mu.Lock()
	l := t.line(key)
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

// Take takes n units of a key before all who wait, for somebody who has some already and keeps them until it has more.
// It reports false if fewer are free. To call release again does nothing.
func (t *Turns[K]) Take(key K, n int) (release func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.line(key)
	if n > l.free {
		t.serve(key, l) // forgets a key that nobody uses
		return nil, false
	}
	l.free -= n
	return sync.OnceFunc(func() { t.release(key, &waiter{units: n}) }), true
}

// line returns the users of a key. The caller holds the lock.
func (t *Turns[K]) line(key K) *line {
	l := t.of[key]
	if l == nil {
		l = &line{free: t.limit}
		t.of[key] = l
	}
	return l
}

func (t *Turns[K]) release(key K, w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free(key, t.of[key], w)
}

// free adds what somebody had to what is free. The caller holds the lock.
func (t *Turns[K]) free(key K, l *line, w *waiter) {
	l.free += w.units
	if w.before != nil && w.before == l.due {
		l.spare += w.units
	}
	t.serve(key, l)
}

// leave takes off one who does not wait any more, and may have got its turn.
func (t *Turns[K]) leave(key K, w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.of[key]
	at := slices.Index(l.waiting, w)
	if at < 0 {
		t.free(key, l, w)
		return
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	if l.due == w {
		l.due = nil
	}
	t.serve(key, l)
}

// serve serves those who wait, as many as there are units for. The caller holds the lock.
func (t *Turns[K]) serve(key K, l *line) {
	for len(l.waiting) > 0 {
		at := l.next(t.limit)
		if at < 0 {
			return
		}
		w := l.waiting[at]
		l.waiting = slices.Delete(l.waiting, at, at+1)
		l.free -= w.units
		if w == l.due {
			l.due = nil
		} else {
			l.spare -= w.units
			w.before = l.due
		}
		l.newest = !l.newest
		close(w.ready)
	}
	l.newest = false // nobody waits
	if l.free == t.limit {
		delete(t.of, key)
	}
}

// next returns the position of the one to be served, -1 if there is nobody. That is the one whose turn it is, or if too
// little is free for that one, the first from the other end for whom it is enough. What those take who are served
// before their turn leaves as much as the one whose turn it is needs: it waits for those only who came first.
func (l *line) next(limit int) int {
	if l.due == nil {
		l.due = l.waiting[0]
		if l.newest {
			l.due = l.waiting[len(l.waiting)-1]
		}
		l.spare = min(l.free, limit-l.due.units)
	}
	if l.due.units <= l.free {
		return slices.Index(l.waiting, l.due)
	}
	for i := range l.waiting {
		at := i
		if !l.newest {
			at = len(l.waiting) - 1 - i
		}
		if l.waiting[at].units <= min(l.free, l.spare) {
			return at
		}
	}
	return -1
}

// Idle reports whether nobody uses anything or waits.
func (t *Turns[K]) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of) == 0
}
