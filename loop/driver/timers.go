package driver

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// timerTimeout bounds a request that sets a timer the driver waits for.
const timerTimeout = 5 * time.Second

// A run's time limit is a timer message to the session's own inbox, so it survives every process. The driver sets and
// cancels the timer in the background: a timer that cannot be set is logged, because the run matters more than its
// limit, and a timer that fires late names its run and is ignored. A program without a bus has the clock alone.

// armDeadline sets the timer of the run under way, if it has a limit.
func (d *Driver) armDeadline() {
	d.View(func(s *loop.State) {
		if s.Run == nil || s.Config.Limits.RunTimeoutMs <= 0 {
			return
		}
		at := schemas.After(s.Run.StartedAt, s.Config.Limits.RunTimeoutMs)
		timer := schemas.Timer{Name: schemas.TimerRunDeadline, RunID: s.Run.ID}
		if d.o.Timers == nil {
			d.stopClock()
			d.stopClock = d.o.Clock.AfterFunc(at.Sub(d.o.Clock.Now()), func() { d.deadlineFired(timer) })
			return
		}
		d.inBackground(&d.deadline, "run deadline", func(ctx context.Context) {
			if err := d.o.Timers.Schedule(ctx, d.session, at, timer); err != nil {
				d.o.Logger.Warn("run deadline not set", "session", d.session, "run", timer.RunID, "err", err)
			}
		})
	})
}

// deadlineFired ends the run that a timer of the clock names.
func (d *Driver) deadlineFired(timer schemas.Timer) {
	c := schemas.Command{ID: "timer-" + timer.Name + "-" + timer.RunID, Session: d.session, Data: &timer}
	if _, err := d.Accept(context.Background(), c); err != nil {
		d.o.Logger.Warn("run not ended at its deadline", "session", d.session, "run", timer.RunID, "err", err)
	}
}

// disarmDeadline cancels the deadline timer. The caller holds the lock.
func (d *Driver) disarmDeadline() {
	d.stopClock()
	if d.deadline.Last() == nil {
		return
	}
	d.inBackground(&d.deadline, "run deadline", func(ctx context.Context) {
		if err := d.o.Timers.Cancel(ctx, d.session, schemas.TimerRunDeadline); err != nil {
			d.o.Logger.Debug("run deadline not cancelled", "session", d.session, "err", err)
		}
	})
}

// lateLimit is how much later a timer is set whose time has passed when the session is loaded. Mostly it has fired and
// is in the inbox: set at once, it would fire again with each load.
const lateLimit = 10 * time.Second

// limitApprovals sets the timer that denies what nobody has answered: one for all calls that wait, for the first limit.
// A timer for each of hundreds of calls would keep the inbox of all sessions busy. Every process that loads the session
// sets it again, because the one before may have died before it did.
func (d *Driver) limitApprovals(ctx context.Context) error {
	first := d.firstLimit()
	if first == nil || first.Key == d.limited || d.o.Timers == nil {
		return nil
	}
	at := first.Approval.Until().Add(spareTime(first.Approval.TimeoutMs))
	if now := d.o.Clock.Now(); at.Before(now) {
		at = now.Add(lateLimit)
	}
	timer := schemas.Timer{Name: schemas.TimerApproval + "_" + string(first.Key), Call: string(first.Key)}
	if err := d.schedule(ctx, at, &timer); err != nil {
		return fmt.Errorf("limit the wait for approval of call %s of session %s to %s: %w", first.Key, d.session,
			schemas.Milliseconds(first.Approval.TimeoutMs), err)
	}
	d.limited = first.Key
	return nil
}

// firstLimit returns the call whose wait for approval is over first, nil if there is none.
func (d *Driver) firstLimit() (first *loop.Call) {
	d.View(func(s *loop.State) {
		if s.Run == nil || s.Run.Turn == nil {
			return
		}
		for _, c := range s.Run.Turn.Calls {
			if c.AwaitsApproval() && c.Approval.TimeoutMs > 0 &&
				(first == nil || c.Approval.Until().Before(first.Approval.Until())) {
				first = &c
			}
		}
	})
	return first
}

// spareTime is how much later than the first limit the timer fires: the calls of a reply are requested one after the
// other, and those whose limits pass in that time are denied together.
func spareTime(timeoutMs int64) time.Duration {
	return min(time.Second, schemas.Milliseconds(timeoutMs)/10)
}

// maxAwake is the longest wait for which a session stays awake. For a longer one it rests, and a timer in its inbox
// wakes it in this or another process. A timer may be half a second late, too much for short waits.
const maxAwake = time.Second

// retry waits until the model may be called again and then starts the turn. It returns early when something arrives,
// and when it has set a timer that wakes the session: [Driver.mayRest] then lets it rest.
func (d *Driver) retry(ctx context.Context, step loop.Retry) error {
	if over, err := d.waitUntil(ctx, step.NotBefore); !over || err != nil {
		return err
	}
	return d.emit(ctx, step.Then, "")
}

// waitUntil waits until a time and reports whether it has come. It returns early when something arrives, and when it
// has set a timer that wakes the session.
func (d *Driver) waitUntil(ctx context.Context, at time.Time) (due bool, err error) {
	d.mu.Lock()
	wait := d.untilDue(at)
	d.mu.Unlock()
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

// setRetryTimer reports whether the timer is set. If not the session stays awake, and its unacknowledged message is
// what wakes it elsewhere should this process die.
func (d *Driver) setRetryTimer(ctx context.Context, at time.Time) bool {
	timer := schemas.Timer{Name: schemas.TimerRetry}
	if err := d.schedule(ctx, at, &timer); err != nil {
		d.o.Logger.Warn("retry timer not set", "session", d.session, "run", timer.RunID, "err", err)
		return false
	}
	d.wakesAt = at
	return true
}

// schedule sets a timer, for the run under way if there is one, and waits until it is set.
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

// mayRest reports whether a timer is set that ends the wait until the given time. The caller holds the lock.
func (d *Driver) mayRest(at time.Time) bool {
	return d.wakesAt.Equal(at) && d.untilDue(at) > 0
}

// retryTimerFired notes that a time has come by the clock of the server, which wakes a session only once. By the clock
// of this process it may not have come: that clock is behind, or was set back. The caller holds the lock.
func (d *Driver) retryTimerFired(id string) {
	if ms, err := strconv.ParseInt(id[strings.LastIndexByte(id, '-')+1:], 10, 64); err == nil {
		d.fired = max(d.fired, ms)
	}
}

// untilDue returns how long it takes until a time comes, 0 or less if it has come by either clock. The caller holds the
// lock.
func (d *Driver) untilDue(at time.Time) time.Duration {
	if at.UnixMilli() <= d.fired {
		return 0
	}
	return at.Sub(d.o.Clock.Now())
}

// elapsed returns the milliseconds between two times. The first may be of another process, whose clock is ahead, or of
// this one before its clock was set back: then nothing has elapsed. No event has a negative duration.
func elapsed(from, to time.Time) int64 { return max(to.Sub(from).Milliseconds(), 0) }
