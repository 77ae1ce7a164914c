package natsio

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Turns bounds what is used at once for each key, such as a connection: who finds too little waits until it is its
// turn. A key takes memory only while somebody uses it or waits. It is safe for concurrent use.
type Turns[K comparable] struct {
	limit int64
	mu    sync.Mutex
	of    map[K]*turn
}

type turn struct {
	units *semaphore.Weighted
	users int
}

// NewTurns returns Turns with so many units for each key.
func NewTurns[K comparable](limit int) *Turns[K] {
	return &Turns[K]{limit: int64(limit), of: map[K]*turn{}}
}

// Wait waits for n units of a key, or for all of them if it has fewer. Who comes first is first. To call release again
// does nothing. The error is that of ctx.
func (t *Turns[K]) Wait(ctx context.Context, key K, n int) (release func(), err error) {
	weight, units := min(int64(n), t.limit), t.enter(key)
	if err := units.Acquire(ctx, weight); err != nil {
		t.leave(key)
		return nil, err
	}
	return sync.OnceFunc(func() {
		units.Release(weight)
		t.leave(key)
	}), nil
}

func (t *Turns[K]) enter(key K) *semaphore.Weighted {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[key]
	if one == nil {
		one = &turn{units: semaphore.NewWeighted(t.limit)}
		t.of[key] = one
	}
	one.users++
	return one.units
}

func (t *Turns[K]) leave(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.of[key]; one.users > 1 {
		one.users--
		return
	}
	delete(t.of, key)
}

// Idle reports whether nobody uses anything or waits.
func (t *Turns[K]) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of) == 0
}
