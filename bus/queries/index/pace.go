package index

import (
	"context"
	"sync"
	"time"
)

// paceRest is how long a pace rests after a piece of work, as a multiple of the time that the work took.
const paceRest = 9

// pace runs pieces of work one at a time, and rests after each, so that they take a tenth of the time at most. The zero
// value is ready for use.
type pace struct {
	mu   sync.Mutex
	busy chan struct{} // closed when the work in progress, and the rest after it, have ended
}

// run calls f when it may, and returns its error. If ctx ends before, it returns the cause.
func (p *pace) run(ctx context.Context, f func() error) error {
	done := make(chan struct{})
	for {
		p.mu.Lock()
		busy := p.busy
		if busy == nil {
			p.busy = done
		}
		p.mu.Unlock()
		if busy == nil {
			break
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	begun := time.Now()
	defer func() {
		time.AfterFunc(paceRest*time.Since(begun), func() {
			p.mu.Lock()
			p.busy = nil
			p.mu.Unlock()
			close(done)
		})
	}()
	return f()
}
