package history

import (
	"slices"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// outcome is what a log says of a command: where it entered, and where it ended.
type outcome struct {
	accepted, ended []uint64 // sequences of command_accepted, and of the events that end it
	rejected        bool
	messages        []string // that it became
	source          string   // of the event with which it entered
}

// entered is where the log mentions the command first, 0 if nowhere.
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

// collect gathers the outcomes of all commands that the log mentions.
func (s *sessionCheck) collect() {
	for _, e := range s.log {
		switch d := e.Data.(type) {
		case *schemas.CommandAccepted:
			o := s.outcome(d.CommandID, e)
			o.accepted = append(o.accepted, e.Seq)
		case *schemas.CommandApplied:
			o := s.end(d.CommandID, e)
			o.messages = append(o.messages, d.MessageIDs...)
		case *schemas.CommandRejected:
			s.end(d.CommandID, e).rejected = true
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

// checkBy wants the command that takes another's place to be in the log by then.
func (s *sessionCheck) checkBy(e schemas.Event, id, by string) {
	if o := s.outcomes[by]; o == nil || len(o.accepted) == 0 {
		s.fail(Shape, e.Seq, []string{id, by}, "%s by a command that was not accepted", e.Type())
	}
}

// checkOutcomes wants one outcome for each command that was acknowledged, at most one for each other, and none for what
// nobody sent.
func (s *sessionCheck) checkOutcomes() {
	known := map[string]bool{}
	for _, cmd := range s.cmds {
		known[cmd.ID] = true
		s.checkOutcome(cmd)
	}
	for id, o := range s.outcomes {
		if !known[id] {
			s.fail(Foreign, o.entered(), []string{id}, "nobody sent this command")
		}
	}
}

func (s *sessionCheck) checkOutcome(cmd Command) {
	ids := []string{cmd.ID}
	o := s.outcomes[cmd.ID]
	switch {
	case o == nil && !cmd.Acked.IsZero() && cmd.Sent.After(s.Deleted[s.name]):
		s.fail(Lost, 0, ids, "the %s was acknowledged at %s, and the log does not know it", cmd.Kind, cmd.Acked.Format(clock))
	case o == nil:
	case len(o.accepted) > 1:
		s.fail(Doubled, o.accepted[1], ids, "the %s was accepted %d times, at %v", cmd.Kind, len(o.accepted), o.accepted)
	case len(o.ended) > 1:
		s.fail(Doubled, o.ended[1], ids, "the %s has %d outcomes, at %v", cmd.Kind, len(o.ended), o.ended)
	case len(o.ended) == 0:
		s.fail(Lost, o.entered(), ids, "the %s was accepted and has no outcome", cmd.Kind)
	case o.rejected == (len(o.accepted) == 1):
		s.fail(Shape, o.ended[0], ids, "the %s was accepted %d times; rejected: %v", cmd.Kind, len(o.accepted), o.rejected)
	}
}

// clock is how a time of day is shown.
const clock = "15:04:05.000"

// checkOrder wants a command that was acknowledged before another was sent to enter before the other.
func (s *sessionCheck) checkOrder() {
	for i, cmd := range s.cmds {
		o := s.outcomes[cmd.ID]
		if o == nil {
			continue
		}
		for _, before := range s.cmds[:i] {
			b := s.outcomes[before.ID]
			if b == nil || b.entered() < o.entered() || before.Acked.IsZero() || !before.Acked.Before(cmd.Sent) {
				continue
			}
			s.fail(Order, o.entered(), []string{before.ID, cmd.ID},
				"the %s was acknowledged at %s, the %s was sent at %s and entered first, by %s; the other at %d by %s",
				before.Kind, before.Acked.Format(clock), cmd.Kind, cmd.Sent.Format(clock), o.source, b.entered(), b.source)
			break
		}
	}
}

// checkRest wants the log to fold to a session at rest that holds nothing back.
func (s *sessionCheck) checkRest() {
	state := &loop.State{Session: s.name}
	for _, e := range s.log {
		if err := state.Apply(e); err != nil {
			s.fail(Shape, e.Seq, nil, "cannot be folded: %v", err)
			return
		}
	}
	if !state.Idle() {
		s.fail(Stuck, state.Seq, []string{state.Run.Command}, "run %s has no end; next would be %T", state.Run.ID,
			loop.Next(state))
	}
	for _, in := range slices.Concat(state.Prompts, state.Steering, state.FollowUp) {
		s.fail(Stuck, state.Seq, []string{in.CommandID}, "the %s still waits", in.Kind)
	}
}
