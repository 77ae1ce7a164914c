package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// nextToolStep is what a reply with tool calls needs next; without any, its turn ends.
func nextToolStep(s *State, r *Run) Step {
	calls := r.Turn.Calls
	if s.Sequential() {
		for i, c := range calls {
			switch {
			case c.MessageID != "":
			case c.End != nil:
				return announceResult(s, c)
			default:
				return RunTools{Calls: []int{i}, Aborted: r.Abort != nil}
			}
		}
		return endTurn(s, r)
	}
	var open []int
	for i, c := range calls {
		if c.End == nil {
			open = append(open, i)
		}
	}
	if len(open) > 0 {
		return RunTools{Calls: open, Aborted: r.Abort != nil}
	}
	for _, c := range calls { // results enter the transcript in the order of the calls
		if c.MessageID == "" {
			return announceResult(s, c)
		}
	}
	return endTurn(s, r)
}

// Sequential reports whether the calls of the turn under way must not overlap: the run says so, or one of the tools
// called does.
func (s *State) Sequential() bool {
	if s.Config.ToolExecution == schemas.ExecuteSequential {
		return true
	}
	for _, c := range s.Run.Turn.Calls {
		if d := s.Definition(c.ToolCall.Name); d != nil && d.ExecutionMode == schemas.ExecuteSequential {
			return true
		}
	}
	return false
}

// BeyondWindow reports, by the index of the call, which calls of the turn under way have to wait before they are
// dispatched: no more than window calls of one tool are in flight at once, and a window of zero or less is no limit.
// The last calls of a tool wait, so that a call which may be dispatched now may be later too, unless one before it had
// to wait for approval. Sub-agents have limits of their own, and take no worker's place.
func (s *State) BeyondWindow(window int) []bool {
	if s.Run == nil || s.Run.Turn == nil {
		return nil
	}
	beyond, inFlight := make([]bool, len(s.Run.Turn.Calls)), map[string]int{}
	if window <= 0 {
		return beyond
	}
	for i := range s.Run.Turn.Calls {
		c := &s.Run.Turn.Calls[i]
		if c.End != nil || c.AwaitsApproval() || s.BeginsSubagent(*c) {
			continue
		}
		inFlight[c.ToolCall.Name]++
		beyond[i] = inFlight[c.ToolCall.Name] > window
	}
	return beyond
}

// Definition returns the definition that the run started with of a tool, or nil.
func (s *State) Definition(name string) *schemas.ToolDefinition {
	for i := range s.Config.Tools {
		if s.Config.Tools[i].Name == name {
			return &s.Config.Tools[i]
		}
	}
	return nil
}

// Refusal returns the error text with which a call is answered without being executed, or "": the reply was cut off
// (its arguments may be incomplete), or the run is being aborted and the call has not begun, or only waits for
// approval.
func (s *State) Refusal(c Call) string {
	switch {
	case s.Run.Turn.Reply.StopReason == schemas.StopLength:
		return fmt.Sprintf("Tool call %q was not executed: the response hit the output token limit, so its arguments "+
			"may be truncated. Re-issue the tool call with complete arguments.", c.ToolCall.Name)
	case s.Run.Abort != nil && (c.Key == "" || c.AwaitsApproval()):
		return TextAborted
	}
	return ""
}

// TextAborted is the result of a call that an abort prevented from running.
const TextAborted = "Operation aborted"

func announceResult(s *State, c Call) Step {
	return Emit{Data: &schemas.MessageStart{
		MessageID: s.MessageID(), Role: schemas.RoleToolResult, ToolCallID: c.ToolCall.ID, ToolName: c.ToolCall.Name,
	}}
}

func endTurn(s *State, r *Run) Step {
	ids := make([]string, len(r.Turn.Calls))
	for i, c := range r.Turn.Calls {
		ids[i] = c.MessageID
	}
	return Emit{Data: &schemas.TurnEnd{MessageID: r.Turn.ReplyID, ToolResults: ids, ContextUsage: s.ContextUsage()}}
}

// BeginsSubagent reports whether a call is of the runner's own tool agent. A tool of that name in a workspace, such as
// the recorded one of a re-run, is a tool like any other.
func (s *State) BeginsSubagent(c Call) bool {
	return c.ToolCall.Name == schemas.ToolAgent &&
		!slices.ContainsFunc(s.Config.Tools, func(d schemas.ToolDefinition) bool {
			return d.Name == schemas.ToolAgent && d.Workspace != ""
		})
}

// agentCalls is how many calls of the turn may yet begin a sub-agent.
func (s *State) agentCalls() (n int) {
	for _, c := range s.Run.Turn.Calls {
		if s.BeginsSubagent(c) && c.End == nil && c.Subagent == "" {
			n++
		}
	}
	return n
}

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
