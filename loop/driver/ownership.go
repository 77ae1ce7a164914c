package driver

import (
	"context"
	"time"
)

// maxPause is how long a process may have done nothing for a session before it has to verify, ahead of an effect that
// the log cannot fence, that it still owns the session. It is less than the second that other runners wait after the
// last heartbeat before they take a session over; the heartbeat may be a quarter of a second old by then.
const maxPause = 400 * time.Millisecond

// maxVerifications is how often ownership is verified before one effect. An answer that took longer than maxPause may
// be older than a suspension, so the driver verifies again; but a server that is always slow must not stop a session.
const maxVerifications = 3

// ownership notices that the process may have been suspended: then another process may own the session by now.
type ownership struct {
	active     time.Time // when the session was last worked on
	unverified time.Time // when the newest pause was noticed, until ownership is verified; else zero
}

// observe is called whenever the session is worked on. It compares wall clock and monotonic clock: only one of them
// goes on while a machine sleeps.
func (o *ownership) observe(now time.Time) {
	pause := max(now.Sub(o.active), now.Round(0).Sub(o.active.Round(0)))
	if !o.active.IsZero() && pause > maxPause {
		o.unverified = now
	}
	o.active = now
}

// verifyOwnership verifies, before a model or a tool is called, that no other process has taken the session over while
// this one was suspended. It costs nothing while the session is worked on without a pause; after one it waits for the
// first event that was stored since. The error is a [LostError], unless ctx has ended.
func (d *Driver) verifyOwnership(ctx context.Context) error {
	for range maxVerifications {
		now := d.o.Clock.Now()
		d.mu.Lock()
		d.ownership.observe(now)
		unverified, seq := d.ownership.unverified, d.state.Seq
		d.mu.Unlock()
		if unverified.IsZero() {
			return nil
		}
		if err := d.o.Log.Confirm(ctx, unverified); err != nil {
			return d.refused(ctx, seq+1, err)
		}
		d.mu.Lock()
		if d.ownership.unverified.Equal(unverified) { // and not of a later pause, such as one in the middle of this
			d.ownership.unverified = time.Time{}
		}
		d.mu.Unlock()
	}
	return nil
}
