package driver

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// maxAwake is the longest wait that a session stays awake for. For a longer one it rests, and a timer in its own inbox
// wakes it, here or elsewhere; a timer may be late by half a second, so short waits are not its business.
const maxAwake = time.Second

// retry waits until the model may be asked again, and begins the turn. It returns before that when something arrives, and
// when a timer has been set that will wake the session: [Driver.mayRest] then lets it rest.
func (d *Driver) retry(ctx context.Context, step loop.Retry) error {
	wait := step.NotBefore.Sub(d.o.Clock.Now())
	if wait <= 0 {
		return d.emit(ctx, step.Then, "")
	}
	if wait > maxAwake && d.o.Timers != nil && d.setRetryTimer(ctx, step) {
		return nil
	}
	over := make(chan struct{})
	stop := d.o.Clock.AfterFunc(wait, func() { close(over) })
	defer stop()
	select {
	case <-over:
		return nil
	case <-d.arrived:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setRetryTimer reports whether the timer is set. Without it the session stays awake: what it waits with then is its
// unacknowledged message.
func (d *Driver) setRetryTimer(ctx context.Context, step loop.Retry) bool {
	timer := schemas.Timer{Name: schemas.TimerRetry}
	d.View(func(s *loop.State) { timer.RunID = s.Run.ID })
	ctx, cancel := context.WithTimeout(ctx, timerTimeout)
	defer cancel()
	if err := d.o.Timers.Schedule(ctx, d.session, step.NotBefore, timer); err != nil {
		d.o.Logger.Warn("retry timer not set", "session", d.session, "run", timer.RunID, "err", err)
		return false
	}
	d.wakesAt = step.NotBefore
	return true
}

// mayRest reports whether a timer is set that ends the wait of the step. The caller holds the lock.
func (d *Driver) mayRest(step loop.Retry) bool {
	return d.wakesAt.Equal(step.NotBefore) && step.NotBefore.After(d.o.Clock.Now())
}
