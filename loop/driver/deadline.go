package driver

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// timerTimeout bounds the request that sets a timer which is waited for.
	timerTimeout = 5 * time.Second
	// deadlineTimeout bounds those that nobody waits for. A cluster needs up to ten seconds to elect a leader.
	deadlineTimeout = 15 * time.Second
)

// deadline is a run's wall clock. It is a message in the session's own inbox, so it survives every process. Setting it
// and taking it back is done beside the run, which waits for neither: a timer that could not be set is logged, because
// the run is worth more than its limit; one that fires late is recognised by its run.
type deadline struct {
	done chan struct{} // closed when the request before is; nil when no timer is set
}

// armDeadline sets the timer of the run under way, if it has a limit.
func (d *Driver) armDeadline() {
	var at time.Time
	timer := schemas.Timer{Name: schemas.TimerRunDeadline}
	d.View(func(s *loop.State) {
		if s.Run != nil && s.Config.Limits.RunTimeoutMs > 0 {
			at = s.Run.StartedAt.Add(time.Duration(s.Config.Limits.RunTimeoutMs) * time.Millisecond)
			timer.RunID = s.Run.ID
		}
	})
	if d.o.Timers == nil || at.IsZero() {
		return
	}
	d.deadline.next(func(ctx context.Context) {
		if err := d.o.Timers.Schedule(ctx, d.session, at, timer); err != nil {
			d.o.Logger.Warn("run deadline not set", "session", d.session, "run", timer.RunID, "err", err)
		}
	})
}

// disarmDeadline takes the timer back.
func (d *Driver) disarmDeadline() {
	if d.deadline.done == nil {
		return
	}
	d.deadline.next(func(ctx context.Context) {
		if err := d.o.Timers.Cancel(ctx, d.session, schemas.TimerRunDeadline); err != nil {
			d.o.Logger.Debug("run deadline not taken back", "session", d.session, "err", err)
		}
	})
}

// next makes a request once the one before is done, so that they reach the bus in their order.
func (l *deadline) next(request func(ctx context.Context)) {
	before, done := l.done, make(chan struct{})
	l.done = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		ctx, cancel := context.WithTimeout(context.Background(), deadlineTimeout)
		defer cancel()
		request(ctx)
	}()
}
