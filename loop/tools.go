package loop

import (
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// nextToolStep is what a reply with tool calls needs next; without any, its turn ends.
func nextToolStep(s *State, r *Run) Step {
	calls := r.Turn.Calls
	if Sequential(s) {
		for i, c := range calls {
			switch {
			case c.MessageID != "":
			case c.End != nil:
				return announceResult(s, c)
			default:
				return RunTools{Calls: []int{i}, Aborted: r.Abort != nil}
			}
		}
		return endTurn(r)
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
	for _, c := range calls { // results enter the transcript in the order of the calls (behaviour A4.7)
		if c.MessageID == "" {
			return announceResult(s, c)
		}
	}
	return endTurn(r)
}

// Sequential reports whether the calls of the turn under way must not overlap: the run says so, or one of the tools
// called does (behaviour A4.6).
func Sequential(s *State) bool {
	if s.Config.ToolExecution == schemas.ExecuteSequential {
		return true
	}
	for _, c := range s.Run.Turn.Calls {
		if d := Definition(s, c.ToolCall.Name); d != nil && d.ExecutionMode == schemas.ExecuteSequential {
			return true
		}
	}
	return false
}

// Held reports, by the index of the call, which calls of the turn under way have to wait before they are handed over, so that
// no more than window calls of one tool are with its workers at once; a window of zero or less holds none. It holds the last
// of them, so that a call which is not held is not held later either, unless one before it had to wait for approval.
func Held(s *State, window int) []bool {
	if s.Run == nil || s.Run.Turn == nil {
		return nil
	}
	held, out := make([]bool, len(s.Run.Turn.Calls)), map[string]int{}
	if window <= 0 {
		return held
	}
	for i := range s.Run.Turn.Calls {
		c := &s.Run.Turn.Calls[i]
		if c.End != nil || c.AwaitsApproval() {
			continue
		}
		out[c.ToolCall.Name]++
		held[i] = out[c.ToolCall.Name] > window
	}
	return held
}

// Definition returns the definition that the run started with of a tool, or nil.
func Definition(s *State, name string) *schemas.ToolDefinition {
	for i := range s.Config.Tools {
		if s.Config.Tools[i].Name == name {
			return &s.Config.Tools[i]
		}
	}
	return nil
}

// Refusal returns the error text with which a call is answered without being looked at, or "": the reply was cut off
// (behaviour A1.7), or the run is being aborted and the call has not begun, or only waits for approval (behaviour A1.16).
func Refusal(s *State, c Call) string {
	switch {
	case s.Run.Turn.Reply.StopReason == schemas.StopLength:
		return fmt.Sprintf("Tool call %q was not executed: the response hit the output token limit, so its arguments "+
			"may be truncated. Re-issue the tool call with complete arguments.", c.ToolCall.Name)
	case s.Run.Abort != nil && (c.Key == "" || c.AwaitsApproval()):
		return TextAborted
	}
	return ""
}

// TextAborted is the result of a call that an abort kept from running.
const TextAborted = "Operation aborted"

func announceResult(s *State, c Call) Step {
	return Emit{Data: &schemas.MessageStart{
		MessageID: s.MessageID(), Role: schemas.RoleToolResult, ToolCallID: c.ToolCall.ID, ToolName: c.ToolCall.Name,
	}}
}

func endTurn(r *Run) Step {
	ids := make([]string, len(r.Turn.Calls))
	for i, c := range r.Turn.Calls {
		ids[i] = c.MessageID
	}
	return Emit{Data: &schemas.TurnEnd{MessageID: r.Turn.ReplyID, ToolResults: ids}}
}
