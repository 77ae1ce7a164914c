package index

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// maxRecent is of how many events about commands a track knows. A sender that wants to know what became of its command
// asks at once; what is older is read from the log.
const maxRecent = 64

// recent has the newest events that say what has become of commands, as a ring once it is full.
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

// aboutCommand returns an event that says what has become of a command, and the command's id; ok is false for any other
// event. What the command itself said is left out of a command_accepted: its sender knows it.
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

// Outcome returns the newest stored event that says what has become of a command, without what the command itself said,
// and the sequence that the session's log had. found is false where the log does not know the command. It reads the log
// unless this process drives the session and the event is young.
func (ix *Index) Outcome(ctx context.Context, session, command string) (e schemas.Event, seq uint64, found bool,
	err error) {
	ix.mu.Lock()
	t := ix.tracks[session]
	ix.mu.Unlock()
	if t != nil {
		if e, seq, found = t.outcome(command); found {
			return e, seq, true, nil
		}
	}
	seq, stream, err := ix.o.Logs.Head(ctx, session)
	if err != nil {
		return schemas.Event{}, 0, false, err
	}
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
