// Package agentevent has the agent's ten events in pi's full shape: with messages, where the log has their ids.
package agentevent

import (
	"context"
	"encoding/json"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Event is one of the agent's events. Its Type determines which members it has. It shares its messages with the
// transcript; do not change them.
type Event struct {
	Type                  schemas.EventType
	Message               schemas.Message      // message_*, turn_end
	Messages              schemas.Messages     // agent_end
	ToolResults           schemas.Messages     // turn_end
	AssistantMessageEvent *schemas.StreamEvent // message_update
	ToolCallID, ToolName  string               // tool_execution_*
	Args                  json.RawMessage      // tool_execution_start and _update: as the model wrote them
	Result                *schemas.ToolResult  // tool_execution_end
	PartialResult         *schemas.ToolResult  // tool_execution_update
	IsError               bool                 // tool_execution_end
}

// Listener is called with every event, and the loop waits for it. Its context is the run's abort signal. An error fails
// the run at that event.
type Listener func(ctx context.Context, e Event) error

// MarshalJSON writes the event in pi's form.
func (e Event) MarshalJSON() ([]byte, error) {
	m := map[string]any{"type": e.Type}
	switch e.Type {
	case schemas.EventAgentEnd:
		m["messages"] = e.Messages
	case schemas.EventTurnEnd:
		m["message"], m["toolResults"] = e.Message, e.ToolResults
	case schemas.EventMessageStart, schemas.EventMessageEnd:
		m["message"] = e.Message
	case schemas.EventMessageUpdate:
		m["message"], m["assistantMessageEvent"] = e.Message, e.AssistantMessageEvent
	case schemas.EventToolExecutionStart:
		m["toolCallId"], m["toolName"], m["args"] = e.ToolCallID, e.ToolName, e.Args
	case schemas.EventToolExecutionUpdate:
		m["toolCallId"], m["toolName"], m["args"], m["partialResult"] = e.ToolCallID, e.ToolName, e.Args, e.PartialResult
	case schemas.EventToolExecutionEnd:
		m["toolCallId"], m["toolName"], m["result"], m["isError"] = e.ToolCallID, e.ToolName, e.Result, e.IsError
	}
	return schemas.Marshal(m)
}

// Expand returns the full shape of an event. s is the state before the event is applied. It returns false for events
// that are not the agent's: those of the service, and replies closed as interrupted. The message of a reply's
// message_start has no content, which comes with its updates and its message_end.
func Expand(s *loop.State, data schemas.EventData) (Event, bool) {
	e := Event{Type: data.EventType()}
	switch d := data.(type) {
	case *schemas.AgentStart, *schemas.TurnStart:
	case *schemas.MessageStart:
		e.Message = announced(s, d)
	case *schemas.MessageEnd:
		e.Message = d.Message.Message
		return e, !d.Interrupted
	case *schemas.ToolExecutionStart:
		e.ToolCallID, e.ToolName, e.Args = d.ToolCallID, d.ToolName, d.Args
	case *schemas.ToolExecutionEnd:
		e.ToolCallID, e.ToolName, e.Result, e.IsError = d.ToolCallID, d.ToolName, &d.Result, d.IsError
	case *schemas.TurnEnd:
		e.Message, e.ToolResults = s.Message(d.MessageID), s.MessagesByID(d.ToolResults)
	case *schemas.AgentEnd:
		e.Messages = s.MessagesByID(d.Messages)
	default:
		return e, false
	}
	return e, true
}

func announced(s *loop.State, d *schemas.MessageStart) schemas.Message {
	if m := s.Announced(d); m != nil {
		return m
	}
	if d.Role == schemas.RoleAssistant {
		return &schemas.AssistantMessage{API: d.API, Provider: d.Provider, Model: d.Model, StopReason: schemas.StopStop}
	}
	return &schemas.CustomMessage{Role: d.Role, Raw: json.RawMessage(`{"role":"` + string(d.Role) + `"}`)}
}
