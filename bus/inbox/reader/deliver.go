package reader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Pauses before a delivery is tried again. They double.
const (
	firstPause = 250 * time.Millisecond // after a failure
	lastPause  = 30 * time.Second
	// After a conflict the pause is shorter: the runner that extends the session is shutting down, or this one is about
	// to learn that the partition has moved.
	firstConflictPause = 20 * time.Millisecond
	lastConflictPause  = time.Second
	// lastLaterPause is that of messages for which there is no memory, hundreds perhaps: each attempt reads the message
	// again. An attempt that has waited by itself is followed by a short pause.
	lastLaterPause = 10 * time.Second
	// longConflict is the number of conflicts after which they are logged: ten seconds or more.
	longConflict = 15
	// freshFor is how long after its delivery a message may start without a check whether it is still stored.
	freshFor = 50 * time.Millisecond
	// refetchEvery is how many tries to acknowledge a rejected message pass between two checks whether it is stored.
	refetchEvery = 30
)

// errDepends is a [context.Canceled], so that it is not logged as a failure.
var errDepends = fmt.Errorf("inbox: another runner may settle a command that this one depends on: %w", context.Canceled)

// process delivers a message until it is settled, or until the message is no longer this runner's. It is the only
// goroutine of the delivery.
func (r *Reader) process(d *delivery) {
	defer r.end(d)
	failures, conflicts := 0, 0
	for {
		tries, begun := failures+conflicts, time.Now()
		ok, check := r.mayStart(d, tries > 0)
		if !ok {
			return
		}
		var err error
		switch {
		case d.Rejected && tries%refetchEvery != refetchEvery-1: // all that is left is to acknowledge it
		case tries == 0 && r.o.Handler.Void(d.ctx, d.Message):
		// overtakes may take a while, in which the message may be deleted with its session.
		case r.overtakes(d), (check || !d.fresh()) && r.o.Queue.Refetch(d.ctx, d.Message):
			return
		case !d.Rejected:
			if tries > 0 {
				r.o.Count(Retried)
			}
			err = r.attempt(d, failures)
		}
		if err == nil {
			if r.acknowledge(d) {
				return
			}
			// The message is in the log, although the handler need not call entered for a message that the log knows
			// already. The message that this one depends on may wait for it to enter.
			r.enter(d)
			err = errDepends
		}
		var pause time.Duration
		if isForAnother(err) {
			last := lastConflictPause
			if errors.Is(err, schemas.ErrLater) && time.Since(begun) < lastConflictPause {
				last = lastLaterPause
			}
			pause = doubled(firstConflictPause, last, conflicts)
			conflicts++
			if errors.Is(err, errDepends) {
				pause = max(pause, r.untilKnown(d))
			}
			r.setUnverified(d.of)
			level := slog.LevelDebug
			if conflicts >= longConflict {
				level = slog.LevelWarn
			}
			r.logTry(d, level, "delivery given up, trying again", conflicts, err)
		} else {
			if failures > 0 { // the first retry is immediate
				pause = doubled(firstPause, lastPause, failures-1)
			}
			failures++
			r.logTry(d, slog.LevelError, "delivery failed", failures, err)
		}
		if !r.pause(d, pause) {
			return
		}
		// A message that is done can be acknowledged only if there is a consumer.
		for errors.Is(err, errDepends) && r.Partitions() == nil {
			if !r.pause(d, lastConflictPause) {
				return
			}
		}
	}
}

func doubled(first, last time.Duration, times int) time.Duration {
	const most = 10 // keeps the shift from overflowing
	return min(first<<min(times, most), last)
}

// isForAnother reports whether an error means that another runner has to deliver the message, or this one later.
func isForAnother(err error) bool {
	return errors.Is(err, schemas.ErrConflict) || errors.Is(err, schemas.ErrLater) || errors.Is(err, context.Canceled)
}

// mayStart reports whether there may be an attempt, and whether the attempt needs a check first that the message is
// still stored: because the message is not fresh, or because another runner may have its session.
func (r *Reader) mayStart(d *delivery, again bool) (ok, check bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.otherLost = false
	return !d.released && !r.isDraining(), again || d.of.unverified || !d.fresh()
}

// fresh reports whether a message has just come, with its payload.
func (d *delivery) fresh() bool { return time.Since(d.received) <= freshFor }

func (r *Reader) setUnverified(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.unverified = true
}

// attempt delivers the message once, or gives it up after too many failures or lost runners.
func (r *Reader) attempt(d *delivery, failures int) error {
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	if d.suspect && failures == 0 {
		lost, end := r.o.Handler.Attempt(ctx, d.Seq)
		defer end()
		if lost >= r.o.MaxDeliver {
			return r.o.Handler.GiveUp(ctx, d.Message, fmt.Sprintf("given up: %d runners that had begun it were lost", lost))
		}
	}
	err := r.deliver(ctx, d)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.Join(err, context.Cause(ctx))
	case !isForAnother(err) && failures+1 >= r.o.MaxDeliver:
		return r.o.Handler.GiveUp(ctx, d.Message, fmt.Sprintf("given up after %d attempts: %v", failures+1, err))
	}
	return err
}

// deliver calls the handler. It returns a panic as an error.
func (r *Reader) deliver(ctx context.Context, d *delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.o.Logger.Error("panic in a delivery", "session", d.Session, "seq", d.Seq, "panic", p,
				"stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return r.o.Handler.Deliver(r.inherit(ctx, d), d.Message, func() { r.enter(d) })
}

// acknowledge settles a message. It returns false if the message must not be settled yet.
func (r *Reader) acknowledge(d *delivery) (done bool) {
	r.mu.Lock()
	if d.released || d.Rejected && d.consumer != r.consumer || !d.Rejected && r.dependsOnOther(d) {
		defer r.mu.Unlock()
		return d.released
	}
	d.consumer.acked++
	d.of.settled = max(d.of.settled, d.Seq)
	d.consumer.settle(d)
	reply := d.reply
	r.forget(d)
	r.next(d.of)
	r.mu.Unlock()
	r.o.Queue.Ack(reply)
	r.o.Count(Acknowledged)
	return true
}

// pause waits before the next attempt, and gives the delivery's place to another session for that time. It returns
// false if there must be no other attempt: the message is redelivered, here or elsewhere.
func (r *Reader) pause(d *delivery, pause time.Duration) bool {
	if pause == 0 {
		return true
	}
	r.mu.Lock()
	r.gate.Pause(d.request, time.Now())
	r.mu.Unlock()
	select {
	case <-time.After(pause):
		r.mu.Lock()
		r.gate.Resume(d.request)
		r.mu.Unlock()
		return true
	case <-d.ctx.Done():
	case <-r.draining.Done():
	}
	return false
}

// logTry logs the end of an attempt, at the debug level if the same was logged for the session in the last hour.
func (r *Reader) logTry(d *delivery, level slog.Level, what string, tries int, err error) {
	if r.isDraining() || d.ctx.Err() != nil {
		return
	}
	if level > slog.LevelDebug && !r.failures.allow(d.Session, err.Error(), time.Now()) {
		level = slog.LevelDebug
	}
	r.o.Logger.Log(d.ctx, level, what, "session", d.Session, "seq", d.Seq, "attempt", tries, "err", err)
}
