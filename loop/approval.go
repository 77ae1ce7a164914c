package loop

import (
	"fmt"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// TextDenied is the result of a call that somebody denied without a reason.
const TextDenied = "The call was denied"

// ByTime is who denies a call that nobody has answered in time.
const ByTime = "time"

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
	return TextDenied
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

// awaiting returns the calls that wait for approval.
func (s *State) awaiting() (calls []*Call) {
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

// answer is what an approve or deny does: it answers the call it names, or the only one that waits.
func (a acceptance) answer(approved bool, d schemas.ApprovalAnswer) []schemas.EventData {
	waiting := a.s.awaiting()
	if d.Call == "" && len(waiting) > 1 {
		return a.rejected(schemas.RejectState, fmt.Sprintf("%d calls wait for approval: name one", len(waiting)))
	}
	for _, c := range waiting {
		if d.Call == "" || d.Call == c.Key {
			by := d.By
			if by == "" {
				by = a.c.Source
			}
			return a.applied(&schemas.ApprovalResolved{
				Call: c.Key, ToolCallID: c.ToolCall.ID, Approved: approved, By: by, Reason: d.Reason,
			})
		}
	}
	if c := a.s.Call(d.Call); d.Call != "" && c != nil && c.Approval != nil {
		return a.rejected(schemas.RejectConsumed, fmt.Sprintf("call %s has been answered already", d.Call))
	}
	if d.Call != "" {
		return a.rejected(schemas.RejectNotFound, fmt.Sprintf("call %s does not wait for approval", d.Call))
	}
	return a.rejected(schemas.RejectNotFound, "no call waits for approval")
}

// expired is what the timer of an approval does.
func (a acceptance) expired(d *schemas.Timer) []schemas.EventData {
	c := a.s.Call(schemas.CallKey(d.Call))
	if c == nil || !c.AwaitsApproval() || c.Approval.TimeoutMs == 0 {
		return nil
	}
	waited := time.Duration(c.Approval.TimeoutMs) * time.Millisecond
	return a.applied(&schemas.ApprovalResolved{
		Call: c.Key, ToolCallID: c.ToolCall.ID, By: ByTime, Reason: fmt.Sprintf("Nobody approved the call within %s", waited),
	})
}
