package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// timerTimeout bounds the request that sets a timer which is waited for.
const timerTimeout = 5 * time.Second

// A run's wall clock is a message in the session's own inbox, so it survives every process. Setting and cancelling it
// is done in the background of the run, which waits for neither: a timer that could not be set is logged, because the
// run is worth more than its limit; one that fires late is recognised by its run.

// armDeadline sets the timer of the run under way, if it has a limit.
func (d *Driver) armDeadline() {
	d.View(func(s *loop.State) {
		if d.o.Timers == nil || s.Run == nil || s.Config.Limits.RunTimeoutMs <= 0 {
			return
		}
		at := s.Run.StartedAt.Add(time.Duration(s.Config.Limits.RunTimeoutMs) * time.Millisecond)
		timer := schemas.Timer{Name: schemas.TimerRunDeadline, RunID: s.Run.ID}
		d.after(&d.deadline, "run deadline", func(ctx context.Context) {
			if err := d.o.Timers.Schedule(ctx, d.session, at, timer); err != nil {
				d.o.Logger.Warn("run deadline not set", "session", d.session, "run", timer.RunID, "err", err)
			}
		})
	})
}

// disarmDeadline cancels the timer. The caller holds the lock.
func (d *Driver) disarmDeadline() {
	if d.deadline.Last() == nil {
		return
	}
	d.after(&d.deadline, "run deadline", func(ctx context.Context) {
		if err := d.o.Timers.Cancel(ctx, d.session, schemas.TimerRunDeadline); err != nil {
			d.o.Logger.Debug("run deadline not cancelled", "session", d.session, "err", err)
		}
	})
}

// setApprovalTimer has time deny the call. A process that loads the session sets it again: the one before may have
// died first.
func (d *Driver) setApprovalTimer(ctx context.Context, call loop.Call) error {
	until := call.Approval.Until()
	if until.IsZero() || d.o.Timers == nil {
		return nil
	}
	timer := schemas.Timer{Name: schemas.TimerApproval + "_" + string(call.Key), Call: string(call.Key)}
	if err := d.schedule(ctx, until, &timer); err != nil {
		return fmt.Errorf("limit the wait for approval of call %s of session %s to %s: %w", call.Key, d.session,
			time.Duration(call.Approval.TimeoutMs)*time.Millisecond, err)
	}
	return nil
}

// maxAwake is the longest wait that a session stays awake for. For a longer one it rests, and a timer in its own inbox
// wakes it, here or elsewhere; a timer may be late by half a second, so short waits are not its business.
const maxAwake = time.Second

// retry waits until the model may be asked again, and begins the turn. It returns before that when something arrives,
// and when a timer has been set that will wake the session: [Driver.mayRest] then lets it rest.
func (d *Driver) retry(ctx context.Context, step loop.Retry) error {
	if over, err := d.waitUntil(ctx, step.NotBefore); !over || err != nil {
		return err
	}
	return d.emit(ctx, step.Then, "")
}

// waitUntil waits for a moment; due says that it has come. It returns before that when something arrives, and when a
// timer has been set that will wake the session.
func (d *Driver) waitUntil(ctx context.Context, at time.Time) (due bool, err error) {
	wait := at.Sub(d.o.Clock.Now())
	if wait <= 0 {
		return true, nil
	}
	if wait > maxAwake && d.o.Timers != nil && d.setRetryTimer(ctx, at) {
		return false, nil
	}
	over := make(chan struct{})
	stop := d.o.Clock.AfterFunc(wait, func() { close(over) })
	defer stop()
	return false, d.wait(ctx, over)
}

// setRetryTimer reports whether the timer is set. Without it the session stays awake: what it waits with then is its
// unacknowledged message.
func (d *Driver) setRetryTimer(ctx context.Context, at time.Time) bool {
	timer := schemas.Timer{Name: schemas.TimerRetry}
	if err := d.schedule(ctx, at, &timer); err != nil {
		d.o.Logger.Warn("retry timer not set", "session", d.session, "run", timer.RunID, "err", err)
		return false
	}
	d.wakesAt = at
	return true
}

// schedule sets a timer of the run under way, if one is, and waits until it is set.
func (d *Driver) schedule(ctx context.Context, at time.Time, timer *schemas.Timer) error {
	d.View(func(s *loop.State) {
		if s.Run != nil {
			timer.RunID = s.Run.ID
		}
	})
	ctx, cancel := context.WithTimeout(ctx, timerTimeout)
	defer cancel()
	return d.outside("timer", func() error { return d.o.Timers.Schedule(ctx, d.session, at, *timer) })
}

// mayRest reports whether a timer is set that ends the wait until a moment. The caller holds the lock.
func (d *Driver) mayRest(at time.Time) bool {
	return d.wakesAt.Equal(at) && at.After(d.o.Clock.Now())
}
