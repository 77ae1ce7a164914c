package loop

import (
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// FROZEN. What is in this file is never changed, not even where [Accept] decides otherwise by now.
//
// A command_accepted of before did not say what follows from it; the fold found out by deciding once more. These logs
// are read for ever, and each of their prefixes has to fold to the state that it folded to then: a log that ends in the
// middle of a command is completed with what was decided, and one that goes on is not given an event that nobody wrote.
// So the decisions of that time are written down here, as a rule about the state that the command_accepted finds. The
// rule does not call Accept and shares nothing with it.

// oweFrozen records what has to follow a command_accepted that has no follows.
func (s *State) oweFrozen(d *schemas.CommandAccepted, data schemas.CommandData) {
	if s.Known.Has(d.CommandID) {
		return
	}
	f := frozen{s: s, id: d.CommandID, kind: d.Kind, source: d.Source}
	if more := f.owed(data); len(more) > 0 {
		s.Owed = s.owing(more...)
	}
}

type frozen struct {
	s          *State
	id, source string
	kind       schemas.CommandKind
}

func (f frozen) owed(data schemas.CommandData) []Owed {
	switch d := data.(type) {
	case *schemas.Prompt:
		if f.s.Run == nil || d.WhenBusy != schemas.BusyInterrupt {
			return nil
		}
		return f.about(schemas.EventCommandSuperseded, f.s.Prompts)
	case *schemas.Steer, *schemas.FollowUp, *schemas.Continue:
		return nil
	case *schemas.Abort:
		var withdrawn []Owed
		if d.ClearQueue {
			withdrawn = f.withdrawn(f.s.Prompts, f.s.Steering, f.s.FollowUp)
		}
		if f.s.Run == nil && len(withdrawn) == 0 {
			return nil
		}
		return f.applied(withdrawn...)
	case *schemas.ClearQueue:
		return f.applied(f.withdrawn(f.queues(d.Queue)...)...)
	case *schemas.CancelInput:
		for _, q := range f.queues("") {
			for i := range q {
				if q[i].CommandID == d.InputID {
					return f.applied(f.withdrawn(q[i : i+1])...)
				}
			}
		}
		return nil
	case *schemas.Branch:
		if o := f.s.Origin; o == nil || o.Session != d.Session || d.Seq != 0 && o.Seq != d.Seq {
			return nil
		}
	case *schemas.Approve:
		return f.answered(true, d.ApprovalAnswer)
	case *schemas.Deny:
		return f.answered(false, d.ApprovalAnswer)
	case *schemas.Timer:
		switch {
		case d.Name == "retry":
			return nil
		case d.Name == "approval_"+d.Call:
			return f.expired(schemas.CallKey(d.Call))
		case f.s.Run == nil || f.s.Run.ID != d.RunID || f.s.Run.Abort != nil:
			return nil
		}
	}
	return f.applied()
}

func (f frozen) queues(name string) [][]Input {
	switch name {
	case "steering", "steer":
		return [][]Input{f.s.Steering}
	case "follow_up":
		return [][]Input{f.s.FollowUp}
	case "prompts":
		return [][]Input{f.s.Prompts}
	}
	return [][]Input{f.s.Prompts, f.s.Steering, f.s.FollowUp}
}

func (f frozen) applied(before ...Owed) []Owed {
	return append(before, Owed{By: f.id, Type: schemas.EventCommandApplied, ID: f.id, Kind: f.kind})
}

func (f frozen) withdrawn(queues ...[]Input) []Owed {
	return f.about(schemas.EventCommandWithdrawn, slices.Concat(queues...))
}

func (f frozen) about(t schemas.EventType, inputs []Input) (list []Owed) {
	for _, in := range inputs {
		list = append(list, Owed{By: f.id, Type: t, ID: in.CommandID, Kind: in.Kind})
	}
	return list
}

// waiting are the calls of the turn that wait for an answer, in their order.
func (f frozen) waiting() (calls []*Call) {
	if f.s.Run == nil || f.s.Run.Turn == nil {
		return nil
	}
	for i := range f.s.Run.Turn.Calls {
		if c := &f.s.Run.Turn.Calls[i]; c.End == nil && c.Approval != nil && c.Approval.Answer == nil {
			calls = append(calls, c)
		}
	}
	return calls
}

func (f frozen) answered(approved bool, d schemas.ApprovalAnswer) []Owed {
	waiting := f.waiting()
	if d.Call == "" && len(waiting) > 1 {
		return nil
	}
	by := d.By
	if by == "" {
		by = f.source
	}
	for _, c := range waiting {
		if d.Call == "" || d.Call == c.Key {
			return f.resolved(c, schemas.ApprovalResolved{Approved: approved, By: by, Reason: d.Reason})
		}
	}
	return nil
}

func (f frozen) expired(key schemas.CallKey) []Owed {
	for _, c := range f.waiting() {
		if c.Key != key || c.Approval.TimeoutMs == 0 {
			continue
		}
		waited := time.Duration(c.Approval.TimeoutMs) * time.Millisecond
		reason := fmt.Sprintf("Nobody approved the call within %s", waited)
		return f.resolved(c, schemas.ApprovalResolved{By: "time", Reason: reason})
	}
	return nil
}

func (f frozen) resolved(c *Call, d schemas.ApprovalResolved) []Owed {
	d.Call, d.ToolCallID = c.Key, c.ToolCall.ID
	return f.applied(Owed{By: f.id, Type: schemas.EventApprovalResolved, ID: string(c.Key), Resolved: &d})
}
