package workspace

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// A queue lets one at a time through for each key, in the order in which they came. The zero value is ready.
type queue struct {
	mu    sync.Mutex
	lines map[string][]chan struct{} // per key, closed when it is one's turn: only the first is

	entered atomic.Uint64 // calls
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
