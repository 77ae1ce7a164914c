package driver

import (
	"context"
	"time"
)

// maxSilence is how long a process may have done nothing for a session before it has to make sure, ahead of an effect that
// the log cannot fence, that the session is still its own. It is less than other runners wait before they take over.
const maxSilence = time.Second

// standing notices that the process may have been suspended: then it may have lost the session without knowing it.
type standing struct {
	seen  time.Time // when the session was last worked on
	doubt time.Time // when the newest silence was noticed, if it has not been explained; else zero
}

// look is called whenever the session is worked on. Wall clock and monotonic clock are both asked: only one of them goes
// on while a machine sleeps.
func (s *standing) look(now time.Time) {
	silence := max(now.Sub(s.seen), now.Round(0).Sub(s.seen.Round(0)))
	if !s.seen.IsZero() && silence > maxSilence {
		s.doubt = now
	}
	s.seen = now
}

// ensureOurs makes sure, before a model or a tool is called, that no other process has taken the session over while this
// one was suspended. While the session is worked on without a break it costs nothing, and after one it waits for the
// first event that was stored since; the error is a [LostError].
func (d *Driver) ensureOurs(ctx context.Context) error {
	for {
		d.mu.Lock()
		d.standing.look(d.o.Clock.Now())
		doubt, seq := d.standing.doubt, d.state.Seq
		d.mu.Unlock()
		if doubt.IsZero() {
			return nil
		}
		if err := d.o.Log.Confirm(ctx, doubt); err != nil {
			return &LostError{Session: d.session, Seq: seq + 1, Err: err}
		}
		d.mu.Lock()
		if d.standing.doubt.Equal(doubt) { // and not of a later silence, such as one in the middle of this
			d.standing.doubt = time.Time{}
		}
		d.mu.Unlock()
	}
}
