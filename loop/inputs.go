package loop

import (
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Inputs wait in three queues. Prompts start a run; the run under way polls steering and follow-ups. A poll moves
// inputs into the run, which brings their messages into the transcript one after the other.

func (s *State) asInput(e schemas.Event, d *schemas.CommandAccepted, data schemas.CommandData) (Input, bool) {
	in := Input{CommandID: d.CommandID, Kind: d.Kind, TraceParent: e.TraceParent}
	switch c := data.(type) {
	case *schemas.Prompt:
		in.Messages, in.Expand = c.AsMessages(e.Time), c.Expand
	case *schemas.Steer:
		in.Messages, in.Expand = c.AsMessages(e.Time), c.Expand
	case *schemas.FollowUp:
		in.Messages, in.Expand = c.AsMessages(e.Time), c.Expand
	case *schemas.SubagentPrompt:
		in.Messages = schemas.Input{Text: c.Text}.AsMessages(e.Time)
	case *schemas.SubagentResult:
		if d.Queue == "" {
			return in, false
		}
		in.Messages = schemas.Input{Text: s.brings(c)}.AsMessages(e.Time)
	case *schemas.Continue:
	default:
		return in, false
	}
	return in, true
}

func (s *State) enqueue(q schemas.Queue, in Input) {
	switch q {
	case schemas.QueueSteering:
		s.Steering = append(s.Steering, in)
	case schemas.QueueFollowUp:
		s.FollowUp = append(s.FollowUp, in)
	case schemas.QueueInterrupt:
		s.Prompts = slices.Insert(slices.Clone(s.Prompts), 0, in)
		s.requestAbort(&Abort{CommandID: in.CommandID, Reason: schemas.EndAbort})
	default:
		s.Prompts = append(s.Prompts, in)
	}
}

func (s *State) commandApplied(d *schemas.CommandApplied) {
	s.know(d.CommandID, schemas.InboxPosition{})
	s.paid(d.EventType(), d.CommandID)
	if r := s.Run; r != nil && len(r.Inject) > 0 && r.Inject[0].CommandID == d.CommandID {
		r.Inject, r.Injected = r.Inject[1:], nil
	}
}

func (s *State) withdraw(id string) {
	s.know(id, schemas.InboxPosition{})
	gone := func(in Input) bool { return in.CommandID == id }
	for _, q := range []*[]Input{&s.Prompts, &s.Steering, &s.FollowUp} {
		if slices.ContainsFunc(*q, gone) {
			*q = slices.DeleteFunc(slices.Clone(*q), gone)
		}
	}
}

// removeInputs moves inputs out of their queues into the run.
func (s *State) removeInputs(ids []string) {
	if s.Run == nil || len(ids) == 0 {
		return
	}
	s.Run.Polled = true
	for _, id := range ids {
		for _, q := range [][]Input{s.Steering, s.FollowUp, s.Prompts} {
			if i := slices.IndexFunc(q, func(in Input) bool { return in.CommandID == id }); i >= 0 {
				s.Run.Inject = append(s.Run.Inject, q[i])
				break
			}
		}
		s.withdraw(id)
	}
}

// AtSteeringPoll reports whether the next step depends on the steering queue: once before a run's first reply, and
// after every turn that did not end the run.
func (s *State) AtSteeringPoll() bool {
	r := s.Run
	if r == nil || r.Open != nil || len(r.Inject) > 0 {
		return false
	}
	if r.Turn != nil {
		return r.Turns == 0 && r.Turn.Reply == nil && !r.Polled && !r.SkipSteering
	}
	if r.Last == nil {
		return false
	}
	if r.Last.Failed {
		return false
	}
	_, over := ended(s, r, r.Last)
	return !over
}

// AtFollowUpPoll reports whether the next step depends on the follow-up queue, because the run would end.
func (s *State) AtFollowUpPoll() bool {
	return s.AtSteeringPoll() && s.Run.Turn == nil && len(s.Steering) == 0 && !s.Run.Last.Continue
}

// polled returns what one poll of a queue takes: all inputs or the first one, by the queue's mode.
func polled(queue []Input, mode schemas.QueueMode) []Input {
	if len(queue) > 1 && mode != schemas.QueueAll {
		return queue[:1]
	}
	return queue
}

// poll returns the event that moves inputs out of their queue.
func poll(s *State, inputs []Input) Step {
	return Emit{Data: &schemas.QueueUpdate{
		Steering: idsBut(s.Steering, inputs), FollowUp: idsBut(s.FollowUp, inputs), Prompts: idsBut(s.Prompts, nil),
		Taken: idsBut(inputs, nil),
	}}
}

func idsBut(queue, but []Input) []string {
	out := []string{}
next:
	for _, in := range queue {
		for _, t := range but {
			if t.CommandID == in.CommandID {
				continue next
			}
		}
		out = append(out, in.CommandID)
	}
	return out
}

// nextInjection brings the messages of the polled inputs into the transcript, one after the other.
func nextInjection(s *State, r *Run) Step {
	in := r.Inject[0]
	if n := len(r.Injected); n < len(in.Messages) {
		m := in.Messages[n]
		return Emit{Data: &schemas.MessageStart{MessageID: s.MessageID(), Role: m.MessageRole()}, CausationID: in.CommandID}
	}
	return Emit{
		Data:        &schemas.CommandApplied{CommandID: in.CommandID, Kind: in.Kind, MessageIDs: r.Injected},
		CausationID: in.CommandID,
	}
}

func openCause(r *Run) string {
	if len(r.Inject) > 0 {
		return r.Inject[0].CommandID
	}
	return ""
}

// Unscreened returns the waiting inputs that the hook input was not asked about, in the order in which they would be
// polled: steering, follow-ups, prompts.
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

// hookDecision folds what a hook decided about an input, the run that is about to start, or a call.
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

// screen folds a decision of the hook input. An input that a service has handled has its outcome with that.
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

// change changes a waiting input.
func (s *State) change(id string, f func(in *Input)) {
	for _, q := range []*[]Input{&s.Steering, &s.FollowUp, &s.Prompts} {
		if i := slices.IndexFunc(*q, func(in Input) bool { return in.CommandID == id }); i >= 0 {
			*q = slices.Clone(*q)
			f(&(*q)[i])
			return
		}
	}
}
