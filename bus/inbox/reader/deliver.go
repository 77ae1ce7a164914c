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

// Pauses before a delivery that failed is tried again. They double.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
	// A session that another runner extends is tried again sooner: that runner is on its way out, or this one is about to
	// learn that the partition has moved.
	firstConflictPause = 20 * time.Millisecond
	lastConflictPause  = time.Second
	// freshFor is how long after it was received a message may be delivered without a look whether it is still stored.
	freshFor = 50 * time.Millisecond
)

// errLeans is a [context.Canceled], so that nobody takes it for a failure.
var errLeans = fmt.Errorf("inbox: another command of the session may be settled elsewhere: %w", context.Canceled)

// fly delivers a message until it is settled, or not this runner's any more. A delivery has no other goroutine.
func (r *Reader) fly(f *flight) {
	defer r.end(f)
	failures, conflicts := 0, 0
	for {
		ok, look := r.begins(f, failures+conflicts > 0)
		if !ok || look && r.o.Queue.Gone(f.ctx, f.Message) {
			return
		}
		err := r.try(f, failures)
		if err == nil {
			if r.acknowledge(f) {
				return
			}
			// It is stored, although the handler may not have said so of a message that it has known. What it leans on
			// may wait behind it.
			r.enter(f)
			err = errLeans
		}
		var pause time.Duration
		if isForAnother(err) {
			pause = doubled(firstConflictPause, lastConflictPause, conflicts)
			conflicts++
			r.doubt(f.of)
			r.o.Logger.Debug("delivery given up", "session", f.Session, "seq", f.Seq, "err", err)
		} else {
			if failures > 0 { // the first time at once
				pause = doubled(firstPause, lastPause, failures-1)
			}
			failures++
			r.logFailure(f, failures, err)
		}
		if !r.pause(f, pause) {
			return
		}
		r.o.Count(Retried)
	}
}

func doubled(first, last time.Duration, times int) time.Duration {
	const most = 10 // keeps the shift from overflowing
	return min(first<<min(times, most), last)
}

// isForAnother reports whether an error says that another runner is to deal with the message, or this one later.
func isForAnother(err error) bool {
	return errors.Is(err, schemas.ErrConflict) || errors.Is(err, context.Canceled)
}

// begins reports whether there is to be another attempt, and whether the message has to be looked for before: it is not
// fresh, or another runner may have its session.
func (r *Reader) begins(f *flight, again bool) (ok, look bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.lost = f.of.lost
	return !f.over && !r.isDraining(), again || f.of.doubted || time.Since(f.received) > freshFor
}

func (r *Reader) doubt(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.doubted = true
}

// try delivers the message once, or gives it up.
func (r *Reader) try(f *flight, failures int) error {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	if f.suspect && failures == 0 {
		lost, end := r.o.Handler.Attempt(ctx, f.Seq)
		defer end()
		if lost >= r.o.MaxDeliver {
			return r.o.Handler.GiveUp(ctx, f.Message, fmt.Sprintf("given up: %d runners that had begun it were lost", lost))
		}
	}
	err := r.deliver(ctx, f)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.Join(err, context.Cause(ctx))
	case !isForAnother(err) && failures+1 >= r.o.MaxDeliver:
		return r.o.Handler.GiveUp(ctx, f.Message, fmt.Sprintf("given up after %d attempts: %v", failures+1, err))
	}
	return err
}

// deliver hands the message to the handler. A panic is its error.
func (r *Reader) deliver(ctx context.Context, f *flight) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.o.Logger.Error("panic in a delivery", "session", f.Session, "seq", f.Seq, "panic", p,
				"stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return r.o.Handler.Deliver(ctx, f.Message, func() { r.enter(f) })
}

// acknowledge settles a message. It returns false if it has to be tried once more before.
func (r *Reader) acknowledge(f *flight) (over bool) {
	r.mu.Lock()
	if f.over || r.leans(f) {
		defer r.mu.Unlock()
		return f.over
	}
	f.consumer.acked++
	settle := f.settle
	r.forget(f)
	r.next(f.of)
	r.mu.Unlock()
	r.o.Queue.Ack(settle)
	r.o.Count(Acknowledged)
	return true
}

// pause waits before the next attempt. It returns false if there is to be none: the message comes again, here or
// elsewhere. Meanwhile another session has its place: those that fail must not keep the others out.
func (r *Reader) pause(f *flight, d time.Duration) bool {
	if d == 0 {
		return true
	}
	r.mu.Lock()
	r.gate.Pause(f.request, time.Now())
	r.mu.Unlock()
	select {
	case <-time.After(d):
		r.mu.Lock()
		r.gate.Resume(f.request)
		r.mu.Unlock()
		return true
	case <-f.ctx.Done():
	case <-r.draining.Done():
	}
	return false
}

func (r *Reader) logFailure(f *flight, failures int, err error) {
	if r.isDraining() || f.ctx.Err() != nil {
		return
	}
	level := slog.LevelDebug
	if r.complaints.first(f.Session, err.Error(), time.Now()) {
		level = slog.LevelError
	}
	r.o.Logger.Log(f.ctx, level, "delivery failed", "session", f.Session, "seq", f.Seq, "attempt", failures, "err", err)
}
