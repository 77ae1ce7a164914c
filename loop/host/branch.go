package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// maxCopies is how many sessions are copied at once. Until it is stored, the copy of one may take several times the 64
// MiB that its context may have, and a model may ask for sixteen in a reply.
const maxCopies = 2

// branch makes the command's session a copy of another one. The copy is stored before the command, so a runner that
// finds the copy without the command only has to add the command.
func (h *Host) branch(ctx context.Context, c schemas.Command, b *schemas.Branch) error {
	var refused *schemas.CommandRejected
	err := h.with(ctx, c.Session, nil, func(d *driver.Driver) error {
		if b.Session != c.Session {
			err := d.Copy(ctx, c, b, func() (*schemas.SessionBranched, func(), error) { return h.copyInTurn(ctx, b) })
			if refused = refusedFork(c, err); refused != nil {
				return nil
			}
			if err == nil {
				err = d.Flush(ctx)
			}
			if err != nil {
				return err
			}
		}
		return d.Handle(ctx, c, nil)
	})
	if err == nil && refused != nil {
		return h.reject(ctx, c.Session, *refused)
	}
	return err
}

// copyInTurn is [Host.copyOf] once few others are made. It has its turn until end.
func (h *Host) copyInTurn(ctx context.Context, b *schemas.Branch) (copied *schemas.SessionBranched, end func(),
	err error) {
	end, err = h.copies.Wait(ctx, struct{}{}, 1)
	if err != nil {
		return nil, nil, fmt.Errorf("branch from session %s: wait for other copies: %w", b.Session, err)
	}
	if copied, err = h.copyOf(ctx, b); err != nil {
		end()
	}
	return copied, end, err
}

// copyOf reads the copy from the other session's log. It returns nil if there is nothing to copy.
func (h *Host) copyOf(ctx context.Context, b *schemas.Branch) (*schemas.SessionBranched, error) {
	log, err := h.o.Open(ctx, b.Session)
	if err != nil {
		return nil, fmt.Errorf("branch from session %s: %w", b.Session, err)
	}
	defer log.Close()
	if b.EntryID != "" {
		return h.fork(ctx, log, b)
	}
	state, _, err := h.read(ctx, log, b.Session, b.Seq)
	if err != nil {
		return nil, fmt.Errorf("branch from session %s: %w", b.Session, err)
	}
	if state.Seq == 0 || state.Seq < b.Seq {
		return nil, nil
	}
	return state.Branched(), nil
}

// read folds a log up to the event with sequence upTo, 0 for all of it, starting from its snapshot if that is older;
// saved is the sequence of that snapshot, 0 if none was used.
func (h *Host) read(ctx context.Context, log SessionLog, session string, upTo uint64) (
	state *loop.State, saved uint64, err error,
) {
	ctx, end := h.o.Loads.Load(ctx)
	defer end()
	state = h.saved(ctx, log, session, upTo)
	saved = state.Seq
	for e, err := range log.Read(ctx, state.Seq+1) {
		if err == nil && upTo > 0 && e.Seq > upTo {
			break
		}
		if err == nil {
			err = state.Apply(e)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("after seq %d: %w", state.Seq, err)
		}
	}
	return state, saved, nil
}

// saved returns the state of the log's snapshot if that is not newer than sequence upTo (0: any), else an empty state.
func (h *Host) saved(ctx context.Context, log SessionLog, session string, upTo uint64) *loop.State {
	state := &loop.State{Session: session}
	raw, seq, err := log.Snapshot(ctx, loop.FoldVersion)
	if err != nil {
		h.o.Logger.Warn("snapshot not read", "session", session, "err", err)
	} else if seq > 0 && (upTo == 0 || seq <= upTo) {
		if err := json.Unmarshal(raw, state); err != nil || state.Seq != seq {
			h.o.Logger.Warn("snapshot not usable", "session", session, "seq", seq, "err", err)
			state = &loop.State{Session: session}
		}
	}
	return state
}
