package loop

import (
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Unscreened returns the inputs that wait in a queue and that the hook input has not been asked about, in the order in
// which they would be polled: steering, follow-ups, prompts.
func (s *State) Unscreened() (inputs []Input) {
	for _, q := range [][]Input{s.Steering, s.FollowUp, s.Prompts} {
		for _, in := range q {
			if !in.Screened && in.Kind != schemas.CommandContinue {
				inputs = append(inputs, in)
			}
		}
	}
	return inputs
}

// hookDecision folds what a hook decided about an input, the run that is to begin, or a call.
func (s *State) hookDecision(d *schemas.HookDecision) {
	switch {
	case d.CommandID != "" && d.Hook == schemas.HookInput:
		s.screen(d)
	case d.CommandID != "" && d.Hook == schemas.HookBeforeAgentStart:
		s.change(d.CommandID, func(in *Input) {
			in.Begin = d
			in.Messages = append(slices.Clone(in.Messages), d.Messages...)
		})
	case d.Hook == schemas.HookSessionBeforeCompact:
		if w := s.summing(); w != nil && w.Decision == nil {
			w.Decision = d
		}
	case d.Hook == schemas.HookSessionBeforeTree:
		if n := s.Navigating; n != nil && n.CommandID == d.CommandID && n.Decision == nil {
			n.Decision = d
		}
	case d.Hook == schemas.HookBeforeToolCall:
		if c := s.Call(d.Call); c != nil && c.Decision == nil {
			c.Decision = d
		}
	}
}

// screen is what the hook input does. An input that was dealt with elsewhere has had its outcome.
func (s *State) screen(d *schemas.HookDecision) {
	s.change(d.CommandID, func(in *Input) {
		in.Screened = true
		if d.Messages != nil {
			in.Messages = d.Messages
		}
		if d.Handled {
			s.Owed = s.owing(Owed{By: in.CommandID, Type: schemas.EventCommandApplied, ID: in.CommandID, Kind: in.Kind})
		}
	})
	if d.Handled {
		s.withdraw(d.CommandID)
		s.neverBegan(d.CommandID, textHandled)
	}
}

// change changes an input that waits.
func (s *State) change(id string, f func(in *Input)) {
	for _, q := range []*[]Input{&s.Steering, &s.FollowUp, &s.Prompts} {
		if i := slices.IndexFunc(*q, func(in Input) bool { return in.CommandID == id }); i >= 0 {
			*q = slices.Clone(*q)
			f(&(*q)[i])
			return
		}
	}
}
