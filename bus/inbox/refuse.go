package inbox

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

// postponed is how much later a refused timer fires, at least, and at most twice as much.
const postponed = time.Minute

// Refuse makes a dead letter of a message, or sets a timer again for later. The session's log does not have it: the
// session may have no memory to be loaded.
func (h handler) Refuse(ctx context.Context, m *reader.Message, reason string) error {
	b := m.Body.(*body)
	if b.dropped && queue(h).Refetch(ctx, m) {
		return nil // it was deleted
	}
	if b.dropped {
		return errDropped
	}
	defer b.done()
	ctx, cancel := context.WithTimeout(ctx, h.o.RejectTimeout)
	defer cancel()
	if timer := h.timer(ctx, m); timer != nil {
		at := time.Now().Add(postponed + rand.N(postponed))
		return bus.NewTimers(h.conn).Schedule(ctx, m.Session, at, *timer)
	}
	if err := h.bury(ctx, m.Session, m.Seq, b.letter(), reason); err != nil {
		return err
	}
	h.o.Logger.Warn("command refused", "session", m.Session, "seq", m.Seq, "why", reason)
	return nil
}

// timer returns the timer of a message, nil if it is none.
func (in *Inbox) timer(ctx context.Context, m *reader.Message) *schemas.Timer {
	if m.Kind != reader.Timer {
		return nil
	}
	cmd, err := in.decode(ctx, m)
	if err != nil {
		return nil
	}
	timer, _ := cmd.Data.(*schemas.Timer)
	return timer
}
