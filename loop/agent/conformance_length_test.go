package agent_test

import (
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// This file rewrites what was recorded of a reply that was cut off with tool calls in it. The reference executes the
// calls; here none is executed, and each gets an error result that says so (docs/architecture.md). It is the one wanted
// difference.

// A batch is what the recording shows between a cut-off reply's message_end and its turn_end.
type batch struct {
	from, to int // the events of the calls, half open
	calls    []schemas.ToolCall
}

// adaptLength rewrites expected, which is in normal form, where the scenario has a cut-off reply with calls. The
// number of events must not change, for all else refers to it: a scenario where it would is refused.
func adaptLength(s scenario, expected object) error {
	sequential := s.ToolExecution == schemas.ExecuteSequential
	for _, b := range cutOff(s, list(expected, "events")) {
		events := refusedCalls(b.calls, sequential || callsSequential(s, b.calls))
		if len(events) != b.to-b.from {
			return fmt.Errorf("events %d to %d of %s: calls of a cut-off reply report progress", b.from, b.to, s.Name)
		}
		copy(list(expected, "events")[b.from:b.to], events)
		refused := map[string]any{}
		for _, c := range b.calls {
			refused[c.ID] = normalMessage(jsonValue(refusedMessage(c)))
		}
		for section := range expected {
			expected[section] = replaceResults(expected[section], refused)
		}
		for _, section := range []string{"executed", "hooks"} {
			expected[section] = withoutCalls(list(expected, section), refused)
		}
	}
	return nil
}

// cutOff finds the batches in question.
func cutOff(s scenario, events []any) []batch {
	var batches []batch
	replies := 0
	for i, e := range events {
		e := e.(object)
		message, _ := e["message"].(object)
		if e["type"] != string(schemas.EventMessageEnd) || message["role"] != string(schemas.RoleAssistant) {
			continue
		}
		replies++
		if message["stopReason"] != string(schemas.StopLength) {
			continue
		}
		calls := s.LLM[replies-1].Message.Content.ToolCalls()
		end := i + 1
		for end < len(events) && events[end].(object)["type"] != string(schemas.EventTurnEnd) {
			end++
		}
		if len(calls) > 0 {
			batches = append(batches, batch{i + 1, end, calls})
		}
	}
	return batches
}

func callsSequential(s scenario, calls []schemas.ToolCall) bool {
	for _, c := range calls {
		for _, t := range s.Tools {
			if t.Name == c.Name && t.ExecutionMode == schemas.ExecuteSequential {
				return true
			}
		}
	}
	return false
}

// refusedCalls are the events of a batch of which nothing is executed: those of calls that fail in preparation.
func refusedCalls(calls []schemas.ToolCall, sequential bool) []any {
	var events, messages []any
	for _, c := range calls {
		events = append(events,
			object{"type": "tool_execution_start", "toolCallId": c.ID, "toolName": c.Name, "args": jsonValue(c.Arguments)},
			object{
				"type": "tool_execution_end", "toolCallId": c.ID, "toolName": c.Name,
				"result": jsonValue(schemas.ErrorResult(refusal(c))), "isError": true,
			})
		for _, typ := range []string{"message_start", "message_end"} {
			messages = append(messages, object{"type": typ, "message": normalMessage(jsonValue(refusedMessage(c)))})
		}
		if sequential {
			events, messages = append(events, messages...), nil
		}
	}
	return append(events, messages...)
}

func refusedMessage(c schemas.ToolCall) schemas.Message {
	r := schemas.ErrorResult(refusal(c))
	return &schemas.ToolResultMessage{
		ToolCallID: c.ID, ToolName: c.Name, Content: r.Content, Details: r.Details, IsError: true,
	}
}

func refusal(c schemas.ToolCall) string {
	return fmt.Sprintf("Tool call %q was not executed: the response hit the output token limit, so its arguments may be "+
		"truncated. Re-issue the tool call with complete arguments.", c.Name)
}

// replaceResults puts the messages of refused calls, by call id, in the place of the recorded ones, wherever they are.
func replaceResults(v any, refused map[string]any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = replaceResults(v[i], refused)
		}
	case object:
		id, _ := v["toolCallId"].(string)
		if r, ok := refused[id]; ok && v["role"] == string(schemas.RoleToolResult) {
			return r
		}
		for name := range v {
			v[name] = replaceResults(v[name], refused)
		}
	}
	return v
}

func withoutCalls(entries []any, refused map[string]any) []any {
	var out []any
	for _, e := range entries {
		id, _ := e.(object)["toolCallId"].(string)
		if _, ok := refused[id]; !ok {
			out = append(out, e)
		}
	}
	return out
}
