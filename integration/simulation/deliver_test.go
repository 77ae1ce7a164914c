package simulation_test

import (
	"context"
	"errors"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Pauses before a delivery that failed is retried. They double.
const (
	firstPause         = 250 * time.Millisecond
	lastPause          = 30 * time.Second
	firstConflictPause = 20 * time.Millisecond
	lastConflictPause  = time.Second
)

var errLeans = errors.Join(errors.New("another command of the session may be settled elsewhere"), context.Canceled)

// fly delivers a message until it is settled, or not this runner's any more.
func (in *inbox) fly(ctx context.Context, f *flight) {
	defer in.land(f)
	if f.before != nil {
		select {
		case <-f.before:
		case <-ctx.Done():
			return
		}
	}
	failures, conflicts := 0, 0
	for {
		err := in.try(ctx, f)
		time.Sleep(in.draw(f.what(in, "settles")).between(1000, 100_000)) // what fails one may fail several
		if in.pass(f.what(in, "settles")) != nil {
			return
		}
		if err == nil {
			if in.acknowledge(f) {
				return
			}
			err = errLeans
		}
		in.note("%s: could not deliver %d, %s: %v", in.name, f.seq, f.cmd.ID, err)
		var pause time.Duration
		if isForAnother(err) {
			pause = doubled(firstConflictPause, lastConflictPause, conflicts)
			conflicts++
		} else {
			if failures > 0 { // the first time at once
				pause = doubled(firstPause, lastPause, failures-1)
			}
			failures++
		}
		if !in.pause(ctx, f, pause) {
			return
		}
	}
}

func doubled(first, last time.Duration, times int) time.Duration {
	return min(first<<min(times, 10), last)
}

// isForAnother reports whether an error says that another runner is to deal with the message, or this one later.
func isForAnother(err error) bool {
	return errors.Is(err, schemas.ErrConflict) || errors.Is(err, context.Canceled)
}

// pause waits before the next attempt. It returns false if there is to be none.
func (in *inbox) pause(ctx context.Context, f *flight, d time.Duration) bool {
	over, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !in.attempting(f, cancel) {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return !isClosed(in.draining)
	case <-over.Done():
	case <-in.draining:
	}
	return false
}

// attempting says how the attempt that begins now is cut off. It returns false if the flight is over.
func (in *inbox) attempting(f *flight, cancel context.CancelCauseFunc) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	f.cancel, f.ended = cancel, in.ended
	return !f.dropped && !isClosed(in.draining)
}

// acknowledge settles a message. It returns false if it has to be tried once more before.
func (in *inbox) acknowledge(f *flight) (over bool) {
	in.mu.Lock()
	name := f.epoch.name
	over = f.dropped || !in.leans(f)
	settled := over && !f.dropped
	if settled {
		f.epoch.acked++
		in.enterLocked(f)
		in.forget(f)
	}
	in.mu.Unlock()
	if settled {
		in.send(f.what(in, "ack"), func() { in.queue.ack(name, f.seq, in.name) })
	}
	return over
}

// leans reports whether a command that was delivered may have left its work to another flight of the session which
// another runner has settled. mu is held.
func (in *inbox) leans(f *flight) bool {
	if in.unsure[f] {
		return false
	}
	for other := range in.unsure {
		if other.cmd.Session == f.cmd.Session {
			return true
		}
	}
	return f.ended != in.ended
}

// try delivers the message once, or rejects it if it is no command.
func (in *inbox) try(ctx context.Context, f *flight) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !in.attempting(f, cancel) {
		return errMoved
	}
	if err := sleep(ctx, in.draw(f.what(in, "enters")).between(1000, 100_000)); err != nil {
		return err
	}
	if err := in.pass(f.what(in, "enters")); err != nil {
		return err
	}
	var err error
	if f.refusal != "" {
		err = in.handler.Reject(ctx, f.cmd.Session, schemas.CommandRejected{
			CommandID: f.cmd.ID, Kind: f.cmd.Data.CommandKind(), Code: schemas.RejectInvalid, Reason: f.refusal,
			StreamSeq: f.seq,
		})
	} else {
		err = in.handler.Deliver(ctx, f.cmd, func() { in.enter(f) })
	}
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return err
}
