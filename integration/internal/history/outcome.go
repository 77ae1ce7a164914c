package history

import (
	"slices"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// outcome is what a log has about a command: where it entered the log, and where it ended.
type outcome struct {
	accepted, ended []uint64 // sequences of command_accepted, and of the events that end the command
	rejected        bool
	kind            schemas.CommandKind // if it was accepted, applied or rejected
	messages        []string            // ids of the messages that it became
	source          string              // of the first event that names the command
}

// entered returns the sequence of the first event that names the command; 0 if there is none.
func (o *outcome) entered() uint64 {
	switch {
	case o == nil:
		return 0
	case len(o.accepted) > 0:
		return o.accepted[0]
	case len(o.ended) > 0:
		return o.ended[0]
	}
	return 0
}

// collect fills outcomes with all commands that the log names.
func (s *sessionCheck) collect() {
	for _, e := range s.log {
		switch d := e.Data.(type) {
		case *schemas.CommandAccepted:
			o := s.outcome(d.CommandID, e)
			o.accepted, o.kind = append(o.accepted, e.Seq), d.Kind
		case *schemas.CommandApplied:
			o := s.end(d.CommandID, e)
			o.kind = d.Kind
			o.messages = append(o.messages, d.MessageIDs...)
		case *schemas.CommandRejected:
			o := s.end(d.CommandID, e)
			o.rejected, o.kind = true, d.Kind
		case *schemas.CommandSuperseded:
			s.end(d.CommandID, e)
			s.checkBy(e, d.CommandID, d.By)
		case *schemas.CommandWithdrawn:
			s.end(d.CommandID, e)
			s.checkBy(e, d.CommandID, d.By)
		}
	}
}

func (s *sessionCheck) outcome(id string, e schemas.Event) *outcome {
	o := s.outcomes[id]
	if o == nil {
		o = &outcome{source: e.Source}
		s.outcomes[id] = o
	}
	return o
}

func (s *sessionCheck) end(id string, e schemas.Event) *outcome {
	o := s.outcome(id, e)
	o.ended = append(o.ended, e.Seq)
	return o
}

// checkBy checks that the command that supersedes or withdraws another was accepted before.
func (s *sessionCheck) checkBy(e schemas.Event, id, by string) {
	if o := s.outcomes[by]; o == nil || len(o.accepted) == 0 {
		s.fail(Shape, e.Seq, []string{id, by}, "%s names a command that was not accepted before", e.Type())
	}
}

// checkOutcomes checks that each acknowledged command has one outcome, each other command at most one, and that the log
// has no command that no client sent.
func (s *sessionCheck) checkOutcomes() {
	known := map[string]bool{}
	for _, cmd := range s.cmds {
		known[cmd.ID] = true
		s.checkOutcome(cmd)
	}
	for id, o := range s.outcomes {
		if !known[id] && !s.ofDeleter(id, o) {
			s.fail(Foreign, o.entered(), []string{id}, "no client sent this command")
		}
	}
}

// ofDeleter reports whether a command is the abort of a deleter that was in flight while the session was deleted, and
// has come to the next session of that name. It ends the run that it finds there.
func (s *sessionCheck) ofDeleter(id string, o *outcome) bool {
	return s.deleted(s.name) && o.kind == schemas.CommandAbort && strings.HasPrefix(id, "cmd-")
}

// deletion says when the session was deleted, if it was.
func (s *sessionCheck) deletion() string {
	if at, ok := s.Deleted[s.name]; ok {
		return "; the session was deleted at " + at.Format(clock)
	}
	return ""
}

func (s *sessionCheck) checkOutcome(cmd Command) {
	ids := []string{cmd.ID}
	o := s.outcomes[cmd.ID]
	switch {
	case o == nil && !cmd.Acked.IsZero() && cmd.Sent.After(s.Deleted[s.name]):
		s.fail(Lost, 0, ids, "the %s was sent at %s and acknowledged at %s but is not in the log%s", cmd.Kind,
			cmd.Sent.Format(clock), cmd.Acked.Format(clock), s.deletion())
	case o == nil:
	case len(o.accepted) > 1:
		s.fail(Doubled, o.accepted[1], ids, "the %s was accepted %d times, at %v", cmd.Kind, len(o.accepted), o.accepted)
	case len(o.ended) > 1:
		s.fail(Doubled, o.ended[1], ids, "the %s has %d outcomes, at %v", cmd.Kind, len(o.ended), o.ended)
	case len(o.ended) == 0:
		s.fail(Lost, o.entered(), ids, "the %s was accepted but has no outcome", cmd.Kind)
	case o.rejected == (len(o.accepted) == 1):
		s.fail(Shape, o.ended[0], ids, "the %s was accepted %d times; rejected: %v", cmd.Kind, len(o.accepted), o.rejected)
	}
}

// clock is the format of times of day.
const clock = "15:04:05.000"

// mayOvertake reports whether a command may enter the log before one that was sent before it: an abort does not wait
// for what starts no run.
func mayOvertake(cmd, before schemas.CommandKind) bool {
	aborts := cmd == schemas.CommandAbort || cmd == schemas.CommandSubagentAbort
	return aborts && (before == schemas.CommandApprove || before == schemas.CommandDeny)
}

// checkOrder checks that a command that was acknowledged before another one was sent entered the log before it.
func (s *sessionCheck) checkOrder() {
	for i, cmd := range s.cmds {
		o := s.outcomes[cmd.ID]
		if o == nil {
			continue
		}
		for _, before := range s.cmds[:i] {
			b := s.outcomes[before.ID]
			if b == nil || b.entered() < o.entered() || before.Acked.IsZero() || !before.Acked.Before(cmd.Sent) ||
				mayOvertake(cmd.Kind, before.Kind) {
				continue
			}
			s.fail(Order, o.entered(), []string{before.ID, cmd.ID},
				"the %s was acknowledged at %s; the %s was sent later, at %s, but entered the log first, by %s; the other entered "+
					"at %d, by %s",
				before.Kind, before.Acked.Format(clock), cmd.Kind, cmd.Sent.Format(clock), o.source, b.entered(), b.source)
			break
		}
	}
}

// checkRest checks that the log folds to a session at rest whose queues are empty.
func (s *sessionCheck) checkRest() {
	state := &loop.State{Session: s.name}
	for _, e := range s.log {
		if err := state.Apply(e); err != nil {
			s.fail(Shape, e.Seq, nil, "the log cannot be folded: %v", err)
			return
		}
	}
	if !state.Idle() {
		s.fail(Stuck, state.Seq, []string{state.Run.Command}, "run %s has not ended; its next step is %T", state.Run.ID,
			loop.Next(state))
	}
	for _, in := range slices.Concat(state.Prompts, state.Steering, state.FollowUp) {
		s.fail(Stuck, state.Seq, []string{in.CommandID}, "the %s is still queued", in.Kind)
	}
}
