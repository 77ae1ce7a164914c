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

// begin waits until work may begin; then end must be called with the time that the work took. If ctx ends before,
// begin returns the cause.
func (p *pace) begin(ctx context.Context) (end func(took time.Duration), err error) {
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
			return nil, context.Cause(ctx)
		}
	}
	return func(took time.Duration) {
		time.AfterFunc(paceRest*took, func() {
			p.mu.Lock()
			p.busy = nil
			p.mu.Unlock()
			close(done)
		})
	}, nil
}
