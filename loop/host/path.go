package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// textNoFork is pi's answer to a fork from an entry that does not exist or cannot be written again.
const textNoFork = "Invalid entry ID for forking"

// path reads the path to an entry from the stored part of the session's log. The path is in memory beside the session,
// so the context is one of [turns.Loads.Load], whose turn lasts until the path is not needed any more.
func (h *Host) path(ctx context.Context, session, entry string) (*loop.Path, error) {
	log, err := h.o.Open(ctx, session)
	if err != nil {
		return nil, fmt.Errorf("read the path to entry %s of session %s: %w", entry, session, err)
	}
	defer log.Close()
	path, _, err := h.pathIn(ctx, log, session, entry)
	return path, err
}

// pathIn folds a log up to the event that made an entry. The path shares the messages of the returned state.
func (h *Host) pathIn(ctx context.Context, log SessionLog, session, entry string) (*loop.Path, *loop.State, error) {
	seq, ok := loop.EntrySeq(entry)
	if !ok {
		return nil, nil, noEntry(session, entry)
	}
	state := h.saved(ctx, log, session, max(seq, 2)-1) // the event with that sequence may have made the entry
	for e, err := range log.Read(ctx, state.Seq+1) {
		var path *loop.Path
		if err == nil {
			path, err = state.Enter(e, entry)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the path to entry %s of session %s after seq %d: %w", entry, session,
				state.Seq, err)
		}
		if path != nil {
			return path, state, nil
		}
	}
	return nil, nil, noEntry(session, entry)
}

// hasEntry reports whether a session has an entry. It reads the log from the first event that can have made the entry.
func (h *Host) hasEntry(ctx context.Context, session, entry string) (bool, error) {
	seq, ok := loop.EntrySeq(entry)
	if !ok {
		return false, nil
	}
	log, err := h.o.Open(ctx, session)
	if err != nil {
		return false, fmt.Errorf("look for entry %s of session %s: %w", entry, session, err)
	}
	defer log.Close()
	ctx, end := h.o.Loads.Stream(ctx)
	defer end()
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
		if isPast(e, entry) {
			break
		}
	}
	return false, nil
}

// isPast reports whether no event after e can have made an entry that was not found up to e. An entry of a message is
// made by its message_end, which does not directly follow the message_start that its id counts from.
func isPast(e schemas.Event, entry string) bool {
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

// fork returns the copy for a branch command with an entry.
func (h *Host) fork(ctx context.Context, log SessionLog, b *schemas.Branch) (*schemas.SessionBranched, error) {
	ctx, end := h.o.Loads.Load(ctx)
	defer end()
	path, state, err := h.pathIn(ctx, log, b.Session, b.EntryID)
	if err != nil {
		return nil, err
	}
	return state.BranchedAt(path, b)
}

// refusedFork returns the rejection of a branch command from an entry for an error of [Host.fork], or nil.
func refusedFork(c schemas.Command, err error) *schemas.CommandRejected {
	r := &schemas.CommandRejected{CommandID: c.ID, Kind: schemas.CommandBranch, Reason: textNoFork,
		InboxPosition: c.InboxPosition}
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

// refuseTarget returns the rejection of a command for an entry that the session does not have, or nil. If the log
// cannot be read it rejects nothing.
func (h *Host) refuseTarget(ctx context.Context, c schemas.Command, entry string) *schemas.CommandRejected {
	found, err := h.hasEntry(ctx, c.Session, entry)
	if found || err != nil {
		return nil
	}
	return &schemas.CommandRejected{CommandID: c.ID, Kind: c.Data.CommandKind(), Code: schemas.RejectNotFound,
		Reason: fmt.Sprintf("Entry %s not found", entry), InboxPosition: c.InboxPosition}
}
