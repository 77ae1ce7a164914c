package loop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// nextToolStep returns what a reply with tool calls needs next; without tool calls it ends the turn.
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

// Sequential reports whether the calls of the turn under way must not overlap, because the run or one of the called
// tools requires it.
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

// Definition returns the definition of a tool that the run started with, or nil.
func (s *State) Definition(name string) *schemas.ToolDefinition {
	for i := range s.Config.Tools {
		if s.Config.Tools[i].Name == name {
			return &s.Config.Tools[i]
		}
	}
	return nil
}

// Refusal returns the error text that a call is answered with instead of being executed, or "". A call is refused if
// the reply was cut off, because its arguments may be incomplete, or if they are no complete JSON; if the run is being
// aborted and the call has not begun or waits for approval; and if it requests one copy of the session too many.
func (s *State) Refusal(c Call) string {
	switch {
	case s.Run.Turn.Reply.StopReason == schemas.StopLength:
		return fmt.Sprintf("Tool call %q was not executed: the response hit the output token limit, so its arguments "+
			"may be truncated. Re-issue the tool call with complete arguments.", c.ToolCall.Name)
	case c.ToolCall.Incomplete:
		return fmt.Sprintf("Tool call %q was not executed: its arguments are not complete JSON, so they may be "+
			"truncated. Re-issue the tool call with complete arguments.", c.ToolCall.Name)
	case s.Run.Abort != nil && (c.Key == "" || c.AwaitsApproval()):
		return TextAborted
	case c.Branch > schemas.MaxBranchesOfRun:
		return fmt.Sprintf("A run may make no more than %d copies of its session", schemas.MaxBranchesOfRun)
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

// BeginsSubagent reports whether a call is of the runner's own tool agent.
func (s *State) BeginsSubagent(c Call) bool { return s.ours(c, schemas.ToolAgent) }

// ours reports whether a call is of the runner's own tool of that name. A workspace's tool of that name, such as a
// recorded one in a re-run, is a tool like any other.
func (s *State) ours(c Call, name string) bool {
	return c.ToolCall.Name == name && !slices.ContainsFunc(s.Config.Tools, func(d schemas.ToolDefinition) bool {
		return d.Name == name && d.Workspace != ""
	})
}

// agentCalls returns how many calls of the turn may still begin a sub-agent.
func (s *State) agentCalls() (n int) {
	for _, c := range s.Run.Turn.Calls {
		if s.BeginsSubagent(c) && c.End == nil && c.Subagent == "" {
			n++
		}
	}
	return n
}

// textDenied is the result of a call that was denied without a reason.
const textDenied = "The call was denied"

// byTime names who denies a call that nobody has answered in time.
const byTime = "time"

// Approval is the approval that a call needs. Digest and Args are those of the request; both are empty for a request
// without a digest, as in logs of an earlier format.
type Approval struct {
	RequestedAt time.Time                 `json:"requestedAt"`
	TimeoutMs   int64                     `json:"timeoutMs,omitempty"`
	Digest      string                    `json:"digest,omitempty"`
	Args        json.RawMessage           `json:"args,omitempty"`
	Answer      *schemas.ApprovalResolved `json:"answer,omitempty"`
}

// Until returns when the call is denied for lack of an answer; the zero time means never.
func (a *Approval) Until() time.Time {
	if a.TimeoutMs == 0 {
		return time.Time{}
	}
	return schemas.After(a.RequestedAt, a.TimeoutMs)
}

// OtherThan reports whether the answer is to another request, which has another digest.
func (a *Approval) OtherThan(d schemas.ApprovalAnswer) bool {
	return d.Digest != "" && d.Digest != a.Digest
}

// AwaitsApproval reports whether the call waits for an answer to its approval request.
func (c *Call) AwaitsApproval() bool {
	return c.End == nil && c.Approval != nil && c.Approval.Answer == nil
}

// Denied returns the text that a denied call is answered with, or "".
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
		c.Approval = &Approval{RequestedAt: at, TimeoutMs: d.TimeoutMs, Digest: d.Digest}
		if d.Digest != "" { // a log of the earlier format folds to the same state as before
			c.Approval.Args = d.Args
		}
	}
}

func (s *State) approvalResolved(d *schemas.ApprovalResolved) {
	if c := s.Call(d.Call); c != nil && c.AwaitsApproval() { // later answers change nothing
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

// Agreed returns the arguments to execute the call with: those that the approver has put in place of the call's, or
// those that were approved, whatever the hooks make of the model's now, or args.
func (c *Call) Agreed(args json.RawMessage) json.RawMessage {
	switch a := c.Approval; {
	case a == nil:
		return args
	case a.Answer != nil && a.Answer.Args != nil:
		return a.Answer.Args
	case a.Args != nil:
		return a.Args
	}
	return args
}

// answer returns the events of an approve or deny. It answers the call that it names, if its digest is that of the
// request. args replace the call's arguments, if any; the caller of [Accept] has checked them by the tool's schema.
func (a acceptance) answer(approved bool, d schemas.ApprovalAnswer, args json.RawMessage) []schemas.EventData {
	by, c := cmp.Or(d.By, a.c.Source), a.s.Call(d.Call)
	switch {
	case d.Call == "":
		return a.rejected(schemas.RejectInvalid, "name the call, as approval_requested does")
	case by == byTime:
		return a.rejected(schemas.RejectInvalid, fmt.Sprintf("by %q is reserved: it is who denies what nobody answers", by))
	case c == nil || c.Approval == nil:
		return a.rejected(schemas.RejectNotFound, fmt.Sprintf("call %s does not wait for approval", d.Call))
	case c.Approval.OtherThan(d):
		return a.rejected(schemas.RejectStale, fmt.Sprintf("call %s is not the one that was shown: "+
			"look at the call again, and answer with the digest of its approval_requested", d.Call))
	case !c.AwaitsApproval():
		return a.rejected(schemas.RejectConsumed, fmt.Sprintf("call %s has been answered already", d.Call))
	}
	return a.applied(&schemas.ApprovalResolved{
		Call: c.Key, ToolCallID: c.ToolCall.ID, Approved: approved, By: by, Reason: d.Reason, Args: args,
	})
}

// expired returns the events of the timer of an approval: its call is denied, and so is each whose limit has passed
// when the timer fired.
func (a acceptance) expired(d *schemas.Timer) []schemas.EventData {
	var denied []schemas.EventData
	if a.s.Run == nil || a.s.Run.Turn == nil {
		return nil
	}
	for _, c := range a.s.Run.Turn.Calls {
		if !c.AwaitsApproval() || c.Approval.TimeoutMs == 0 ||
			c.Key != schemas.CallKey(d.Call) && a.c.Time.Before(c.Approval.Until()) {
			continue
		}
		waited := schemas.Milliseconds(c.Approval.TimeoutMs)
		denied = append(denied, &schemas.ApprovalResolved{Call: c.Key, ToolCallID: c.ToolCall.ID, By: byTime,
			Reason: fmt.Sprintf("Nobody approved the call within %s", waited)})
	}
	if len(denied) == 0 {
		return nil
	}
	return a.applied(denied...)
}
