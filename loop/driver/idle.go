package driver

import (
	"context"
	"errors"
	"sync"
	"time"
)

var errIdle = errors.New("model idle")

// idleWatch cuts a model call off that has said nothing of meaning for too long (behaviour B13). It runs only while the
// call does, never while tools work. Its zero value watches nothing.
type idleWatch struct {
	clock   Clock
	timeout time.Duration
	cancel  context.CancelCauseFunc
	ctx     context.Context

	mu   sync.Mutex
	stop func() bool
}

// start returns the context of the call, and a function that ends the watch.
func (w *idleWatch) start(d *Driver, ctx context.Context) (context.Context, func()) {
	if d.o.IdleTimeout <= 0 {
		return ctx, func() {}
	}
	w.clock, w.timeout = d.o.Clock, d.o.IdleTimeout
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.reset()
	return w.ctx, func() {
		w.mu.Lock()
		w.stop()
		w.mu.Unlock()
		w.cancel(nil)
	}
}

// reset begins the time anew.
func (w *idleWatch) reset() {
	if w.clock == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
	}
	w.stop = w.clock.AfterFunc(w.timeout, func() { w.cancel(errIdle) })
}

// fired reports whether the watch cut the call off.
func (w *idleWatch) fired() bool { return w.ctx != nil && errors.Is(context.Cause(w.ctx), errIdle) }
