package index

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// maxRecent limits the command events that a track remembers. A client that wants to know what happened to its
// command asks soon; older events are read from the log.
const maxRecent = 64

// recent holds the newest events about commands in a ring.
type recent struct {
	events []schemas.Event
	oldest int
}

func (r *recent) add(e schemas.Event) {
	about, _, ok := aboutCommand(e)
	switch {
	case !ok:
	case len(r.events) < maxRecent:
		r.events = append(r.events, about)
	default:
		r.events[r.oldest] = about
		r.oldest = (r.oldest + 1) % maxRecent
	}
}

// of returns the newest event about a command up to a sequence.
func (r *recent) of(command string, upTo uint64) (schemas.Event, bool) {
	for i := len(r.events) - 1; i >= 0; i-- {
		e := r.events[(r.oldest+i)%len(r.events)]
		if _, id, _ := aboutCommand(e); id == command && e.Seq <= upTo {
			return e, true
		}
	}
	return schemas.Event{}, false
}

// aboutCommand returns an event about a command, and the command's id; ok is false for other events. It removes the
// command's own data from a command_accepted, as its sender knows it.
func aboutCommand(e schemas.Event) (about schemas.Event, command string, ok bool) {
	switch d := e.Data.(type) {
	case *schemas.CommandAccepted:
		if command = d.CommandID; d.Data != nil {
			short := *d
			short.Data, e.Data = nil, &short
		}
	case *schemas.CommandApplied:
		command = d.CommandID
	case *schemas.CommandRejected:
		command = d.CommandID
	case *schemas.CommandSuperseded:
		command = d.CommandID
	case *schemas.CommandWithdrawn:
		command = d.CommandID
	default:
		return schemas.Event{}, "", false
	}
	return e, command, true
}

// Recent is [Index.Outcome] of a session that this process drives, for a command of the newest. It does not block.
func (ix *Index) Recent(session, command string) (e schemas.Event, found bool) {
	if t := ix.track(session); t != nil {
		e, _, found = t.outcome(command)
	}
	return e, found
}

func (ix *Index) track(session string) *Track {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.tracks[session]
}

// Outcome returns the newest stored event about a command, without the command's own data, and the sequence of the
// session's log. found is false if the log does not know the command. It reads the log unless this process drives the
// session and the event is recent; see [Index.Read].
func (ix *Index) Outcome(ctx context.Context, session, command string) (e schemas.Event, seq uint64, found bool,
	err error) {
	if t := ix.track(session); t != nil {
		if e, seq, found = t.outcome(command); found {
			return e, seq, true, nil
		}
	}
	err = ix.Read(ctx, session, func() error {
		e, seq, found, err = ix.search(ctx, session, command)
		return err
	})
	return e, seq, found, err
}

// SearchOutcome reads the log for the outcome of a command for its sender. Whoever may send commands to a session may
// have its runner read like this, so it does so for a tenth of the time. It waits for its turn, and returns the cause
// of ctx if that ends before.
func (ix *Index) SearchOutcome(ctx context.Context, session, command string) (e schemas.Event, found bool, err error) {
	var took time.Duration
	if t := ix.track(session); t != nil {
		end, err := t.search.begin(ctx)
		if err != nil {
			return schemas.Event{}, false, err
		}
		defer func() { end(took) }()
	}
	err = ix.Read(ctx, session, func() error {
		begun := time.Now()
		defer func() { took = time.Since(begun) }()
		e, _, found, err = ix.search(ctx, session, command)
		return err
	})
	return e, found, err
}

// search reads a whole log for the newest event about a command.
func (ix *Index) search(ctx context.Context, session, command string) (e schemas.Event, seq uint64, found bool,
	err error) {
	seq, stream, err := ix.o.Logs.Head(ctx, session)
	if err != nil {
		return schemas.Event{}, 0, false, err
	}
	ctx, end := ix.o.Loads.Stream(ctx)
	defer end()
	for ev, err := range ix.o.Logs.Between(ctx, session, 0, 0, stream) {
		if err != nil {
			return schemas.Event{}, 0, false, err
		}
		if about, id, ok := aboutCommand(ev); ok && id == command {
			e, found = about, true
		}
	}
	return e, seq, found, nil
}

func (t *Track) outcome(command string) (e schemas.Event, seq uint64, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seq, _ = t.stored()
	e, found = t.recent.of(command, seq)
	return e, seq, found
}
