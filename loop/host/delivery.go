package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/priority"
)

// do calls f unless the host is closed. It logs a panic of f and returns it as the error.
func (h *Host) do(session string, f func() error) (err error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return fmt.Errorf("deliver to session %s: %w", session, ErrClosed)
	}
	h.work.Add(1)
	h.mu.Unlock()
	defer h.work.Done()
	var failed error
	if panicked := panics.Guard("delivery", func() error { failed = f(); return nil }); panicked != nil {
		panics.Log(h.o.Logger, session, panicked)
		return panicked
	}
	return failed
}

func (h *Host) deliver(ctx context.Context, c schemas.Command, entered func()) error {
	if r := h.refuse(ctx, c); r != nil {
		return h.reject(ctx, c.Session, *r)
	}
	if !aborts(c) {
		return h.dispatch(ctx, c, entered)
	}
	err := h.dispatch(abortive(ctx), c, entered)
	if errors.Is(err, errAbortedOnly) { // it is aborted, and waits as others do for room to go on
		err = h.dispatch(ctx, c, entered)
	}
	return err
}

// dispatch delivers a command that was not refused.
func (h *Host) dispatch(ctx context.Context, c schemas.Command, entered func()) error {
	switch d := c.Data.(type) {
	case *schemas.Branch:
		return h.branch(ctx, c, d)
	case *schemas.SubagentPrompt:
		return h.subagentPrompt(ctx, c, d, entered)
	case *schemas.SubagentAbort:
		return h.subagentAbort(ctx, c, d, entered)
	case *schemas.Timer:
		switch d.Name {
		case schemas.TimerSubagents:
			h.checkDue(c.Session)
			return h.checkSubagents(ctx, c, entered)
		case schemas.TimerCheck:
			return h.checkSilent(ctx, c, entered)
		}
	}
	return h.drive(ctx, c, entered)
}

// drive delivers a command to its session's driver.
func (h *Host) drive(ctx context.Context, c schemas.Command, entered func()) error {
	var in bool
	err := h.withEntry(ctx, c.Session, func() bool { return in }, func(e *entry) error {
		unhold(ctx, c.Session)
		if e.abort.only && priority.IsRaised(ctx) {
			return storeFirst(ctx, e.driver, c)
		}
		return e.driver.Handle(ctx, c, func() {
			if in = true; isAbortive(ctx) {
				e.abort.store()
			}
			if entered != nil {
				entered()
			}
		})
	})
	if errors.Is(err, errStoredFirst) && entered != nil {
		entered()
	}
	return err
}

func (h *Host) reject(ctx context.Context, session string, r schemas.CommandRejected) error {
	if r.Code == schemas.RejectDelivery {
		c := schemas.Command{ID: "given-up/" + r.CommandID, Session: session, Data: &schemas.Abort{Reason: r.Reason}}
		err := h.with(ctx, session, nil, func(d *driver.Driver) error {
			var stuck bool
			d.View(func(s *loop.State) { stuck = s.Known.Has(r.CommandID) && s.Run != nil })
			if !stuck {
				return nil
			}
			return d.Handle(ctx, c, nil)
		})
		if err != nil {
			return err
		}
	}
	err := h.with(ctx, session, nil, func(d *driver.Driver) error {
		if err := d.Reject(ctx, r); err != nil {
			return err
		}
		return d.Flush(ctx)
	})
	if err == nil && r.Code == schemas.RejectDelivery {
		err = h.unprocessed(ctx, session, r)
	}
	return err
}

// with calls f with the session's driver, as withEntry does.
func (h *Host) with(ctx context.Context, session string, followed func() bool, f func(d *driver.Driver) error) error {
	return h.withEntry(ctx, session, followed, func(e *entry) error { return f(e.driver) })
}

// withEntry calls f with the session's entry. A session that was loaded before may be behind its log; if the first
// event that f appends reveals that, withEntry loads the session again and calls f again. It does not if followed,
// which may be nil, reports that messages may have followed this one into the session, because they must not overtake
// it. Nor does it if the log has become shorter: then the session was deleted, perhaps by this message, and the next
// delivery decides.
func (h *Host) withEntry(ctx context.Context, session string, followed func() bool, f func(e *entry) error) error {
	had := uint64(0)
	for {
		e, fresh, err := h.acquire(ctx, session)
		if err != nil {
			return err
		}
		seq := e.seq()
		if seq < had {
			h.leave(ctx, e, false)
			return fmt.Errorf("the log was deleted: %w", &schemas.ConflictError{Session: session, Seq: seq + 1})
		}
		had = seq
		stale, err := h.use(ctx, e, fresh, f)
		if !stale || followed != nil && followed() {
			return err
		}
	}
}

// use calls f with an entry and releases the entry. stale reports that the entry was loaded before and behind
// the log.
func (h *Host) use(ctx context.Context, e *entry, fresh bool, f func(e *entry) error) (stale bool, err error) {
	err = &panics.Error{What: "delivery"} // stays if f panics
	defer func() { h.release(ctx, e, err) }()
	begun, before := h.o.Clock.Now(), e.seq()
	if err = f(e); err == nil {
		h.setSubagentCheck(ctx, e)
		// If f had nothing to do, it has judged that by a state which may be stale, and to acknowledge the message could lose
		// it. Events that another delivery has appended in the meantime prove nothing before they are stored.
		err = e.log.Confirm(ctx, begun)
	}
	if stale = !fresh && behind(err, before) && ctx.Err() == nil; stale {
		h.firstLoss(e) // so that it is not logged: the session is loaded again
	}
	return stale, err
}

func behind(err error, seq uint64) bool {
	var conflict *schemas.ConflictError
	return errors.As(err, &conflict) && conflict.Seq == seq+1
}
