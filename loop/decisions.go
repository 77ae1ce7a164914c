package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// textDenied is the result of a call that somebody denied without a reason.
const textDenied = "The call was denied"

// byTime is who denies a call that nobody has answered in time.
const byTime = "time"

// Approval is what a call knows of the agreement that it needs.
type Approval struct {
	RequestedAt time.Time                 `json:"requestedAt"`
	TimeoutMs   int64                     `json:"timeoutMs,omitempty"`
	Answer      *schemas.ApprovalResolved `json:"answer,omitempty"`
}

// Until is when time denies the call; the zero time is never.
func (a *Approval) Until() time.Time {
	if a.TimeoutMs == 0 {
		return time.Time{}
	}
	return a.RequestedAt.Add(time.Duration(a.TimeoutMs) * time.Millisecond)
}

// AwaitsApproval reports whether the call waits for somebody's answer.
func (c *Call) AwaitsApproval() bool {
	return c.End == nil && c.Approval != nil && c.Approval.Answer == nil
}

// Denied returns the text a denied call is answered with, or "".
func (c *Call) Denied() string {
	if c.Approval == nil || c.Approval.Answer == nil || c.Approval.Answer.Approved {
		return ""
	}
	if reason := c.Approval.Answer.Reason; reason != "" {
		return reason
	}
	return textDenied
}

func (s *State) approvalRequested(at time.Time, d *schemas.ApprovalRequested) {
	if c := s.Call(d.Call); c != nil && c.Approval == nil {
		c.Approval = &Approval{RequestedAt: at, TimeoutMs: d.TimeoutMs}
	}
}

func (s *State) approvalResolved(d *schemas.ApprovalResolved) {
	if c := s.Call(d.Call); c != nil && c.AwaitsApproval() { // the first answer is the answer
		c.Approval.Answer = d
	}
}

// AwaitingApproval returns the calls of the turn under way that wait for approval, in the order of the reply.
func (s *State) AwaitingApproval() (calls []*Call) {
	if s.Run == nil || s.Run.Turn == nil {
		return nil
	}
	for i := range s.Run.Turn.Calls {
		if c := &s.Run.Turn.Calls[i]; c.AwaitsApproval() {
			calls = append(calls, c)
		}
	}
	return calls
}

// Agreed returns the arguments that the call is executed with: those that whoever approved it has put in place of args,
// or args.
func (c *Call) Agreed(args json.RawMessage) json.RawMessage {
	if c.Approval == nil || c.Approval.Answer == nil || c.Approval.Answer.Args == nil {
		return args
	}
	return c.Approval.Answer.Args
}

// answer is what an approve or deny does: it answers the call that it names. args are in place of the call's, if any;
// whoever calls [Accept] has checked them against the tool's schema.
func (a acceptance) answer(approved bool, d schemas.ApprovalAnswer, args json.RawMessage) []schemas.EventData {
	by := d.By
	if by == "" {
		by = a.c.Source
	}
	switch {
	case d.Call == "":
		return a.rejected(schemas.RejectInvalid, "name the call, as approval_requested does")
	case by == byTime:
		return a.rejected(schemas.RejectInvalid, fmt.Sprintf("by %q is reserved: it is who denies what nobody answers", by))
	}
	for _, c := range a.s.AwaitingApproval() {
		if d.Call == c.Key {
			return a.applied(&schemas.ApprovalResolved{
				Call: c.Key, ToolCallID: c.ToolCall.ID, Approved: approved, By: by, Reason: d.Reason, Args: args,
			})
		}
	}
	if c := a.s.Call(d.Call); c != nil && c.Approval != nil {
		return a.rejected(schemas.RejectConsumed, fmt.Sprintf("call %s has been answered already", d.Call))
	}
	return a.rejected(schemas.RejectNotFound, fmt.Sprintf("call %s does not wait for approval", d.Call))
}

// expired is what the timer of an approval does.
func (a acceptance) expired(d *schemas.Timer) []schemas.EventData {
	c := a.s.Call(schemas.CallKey(d.Call))
	if c == nil || !c.AwaitsApproval() || c.Approval.TimeoutMs == 0 {
		return nil
	}
	waited := time.Duration(c.Approval.TimeoutMs) * time.Millisecond
	return a.applied(&schemas.ApprovalResolved{
		Call: c.Key, ToolCallID: c.ToolCall.ID, By: byTime, Reason: fmt.Sprintf("Nobody approved the call within %s", waited),
	})
}

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
