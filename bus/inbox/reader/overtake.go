package reader

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/schemas/priority"
)

// overtakeAfter is how long an abort waits behind messages of its session before it overtakes them. They are in the log
// within milliseconds, unless their session waits for memory.
const overtakeAfter = 500 * time.Millisecond

// mayOvertake returns the abort of a session, or what has an abort's priority, that starts although the message at an
// index is at work and not in the log; nil if there is none. All messages before it that are not in the log have to
// yield to it. mu is held.
func (r *Reader) mayOvertake(s *session, at int) *delivery {
	for _, d := range s.deliveries[at:] {
		switch {
		case d.entered || d.Yields:
		case d.request != nil:
			return nil
		case d.Aborts || d.isRaised:
			left := overtakeAfter - time.Since(d.came)
			if left <= 0 {
				return d
			}
			if d.overtake == nil {
				d.overtake = time.AfterFunc(left, func() { r.again(s) })
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}

// again is next after some time.
func (r *Reader) again(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.key] == s {
		r.next(s)
	}
}

// raise gives what waits in front of an abort, and is not in the log, the abort's priority, at the gate as well. The
// caller holds mu and calls next.
func (r *Reader) raise(s *session) {
	for _, d := range s.deliveries {
		if d.entered || d.raised == nil || d.isRaised {
			continue
		}
		d.isRaised = true
		close(d.raised)
		if d.request != nil && !d.started {
			r.gate.Done(d.request, time.Now())
			d.request = nil
		}
	}
}

// inherit returns the context for an attempt. What is in the log does not inherit: it has nothing left to do in front
// of the abort, and waits as others do.
func (r *Reader) inherit(ctx context.Context, d *delivery) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.raised == nil || d.entered {
		return ctx
	}
	return priority.Inherit(ctx, d.raised)
}
