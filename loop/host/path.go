package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// textNoFork is pi's answer to a fork from an entry that there is not, or that nothing can be written anew of.
const textNoFork = "Invalid entry ID for forking"

// path reads the way to an entry from the session's log, as far as that is stored.
func (h *Host) path(ctx context.Context, session, entry string) (*loop.Path, error) {
	log, err := h.o.Open(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("read the path to entry %s of session %s: %w", entry, session, err)
	}
	defer log.Close()
	path, _, err := h.pathIn(ctx, log, session, entry)
	return path, err
}

// pathIn folds a log as far as the event that made an entry. The path shares the state's messages.
func (h *Host) pathIn(ctx context.Context, log SessionLog, session, entry string) (*loop.Path, *loop.State, error) {
	seq, ok := loop.EntrySeq(entry)
	if !ok {
		return nil, nil, noEntry(session, entry)
	}
	state := h.saved(ctx, log, session, max(seq, 2)-1) // the event with that sequence may be the entry's
	for e, err := range log.Read(ctx, state.Seq+1) {
		var path *loop.Path
		if err == nil {
			path, err = state.Enter(e, entry)
		}
		if err != nil {
			return nil, nil, fmt.Errorf(
				"read the path to entry %s of session %s after seq %d: %w",
				entry,
				session,
				state.Seq,
				err,
			)
		}
		if path != nil {
			return path, state, nil
		}
	}
	return nil, nil, noEntry(session, entry)
}

// has reports whether a session has an entry; the log is read from where it can be.
func (h *Host) has(ctx context.Context, session, entry string) (bool, error) {
	seq, ok := loop.EntrySeq(entry)
	if !ok {
		return false, nil
	}
	log, err := h.o.Open(ctx, session)
	if err != nil {
		return false, fmt.Errorf("look for entry %s of session %s: %w", entry, session, err)
	}
	defer log.Close()
	var tree loop.Tree
	for e, err := range log.Read(ctx, seq) {
		if err != nil {
			return false, fmt.Errorf("look for entry %s of session %s: %w", entry, session, err)
		}
		for _, n := range tree.Apply(e) {
			if n.ID == entry {
				return true, nil
			}
		}
		if passed(e, entry) {
			break
		}
	}
	return false, nil
}

// passed reports whether an entry, which was not found by now, will not be found behind this event: a message's end is
// not right behind its beginning, after which its id is made.
func passed(e schemas.Event, entry string) bool {
	switch d := e.Data.(type) {
	case *schemas.MessageStart:
		return d.MessageID != entry
	case *schemas.MessageEnd:
		return true
	}
	return entry[0] != 'm'
}

func noEntry(session, entry string) error {
	return fmt.Errorf("entry %s of session %s: %w", entry, session, loop.ErrNoEntry)
}

// fork is the copy that a branch command with an entry asks for.
func (h *Host) fork(ctx context.Context, log SessionLog, b *schemas.Branch) (*schemas.SessionBranched, error) {
	path, state, err := h.pathIn(ctx, log, b.Session, b.EntryID)
	if err != nil {
		return nil, err
	}
	return state.BranchedAt(path, b)
}

// refusedFork is the refusal of a branch command from an entry that it cannot be from, or nil.
func refusedFork(c schemas.Command, err error) *schemas.CommandRejected {
	r := &schemas.CommandRejected{CommandID: c.ID, Kind: schemas.CommandBranch, Reason: textNoFork}
	switch {
	case errors.Is(err, loop.ErrNoEntry):
		r.Code = schemas.RejectNotFound
	case errors.Is(err, loop.ErrNotAgain):
		r.Code = schemas.RejectState
	default:
		return nil
	}
	return r
}

// refuseTarget says why nobody can go to an entry or label it, or nil. What cannot be known now is not refused.
func (h *Host) refuseTarget(ctx context.Context, c schemas.Command, entry string) *schemas.CommandRejected {
	found, err := h.has(ctx, c.Session, entry)
	if found || err != nil {
		return nil
	}
	return &schemas.CommandRejected{CommandID: c.ID, Kind: c.Data.CommandKind(), Code: schemas.RejectNotFound,
		Reason: fmt.Sprintf("Entry %s not found", entry)}
}
