package workspace

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// A queue runs one caller at a time for each key, in the order of arrival. The zero value is ready for use.
type queue struct {
	mu    sync.Mutex
	lines map[string][]chan struct{} // by key, a channel per caller, closed at its turn; only the first one is closed

	entered atomic.Uint64 // calls so far
}

func (q *queue) run(ctx context.Context, key string, f func() error) error {
	turn := q.enter(key)
	defer q.leave(key, turn)
	select {
	case <-turn:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f()
}

func (q *queue) enter(key string) chan struct{} {
	turn := make(chan struct{})
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lines == nil {
		q.lines = map[string][]chan struct{}{}
	}
	q.lines[key] = append(q.lines[key], turn)
	q.entered.Add(1)
	if len(q.lines[key]) == 1 {
		close(turn)
	}
	return turn
}

func (q *queue) leave(key string, turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.lines[key]
	at := slices.Index(line, turn)
	line = slices.Delete(line, at, at+1)
	if len(line) == 0 {
		delete(q.lines, key)
		return
	}
	q.lines[key] = line
	if at == 0 {
		close(line[0])
	}
}
