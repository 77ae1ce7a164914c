package schemas

import (
	"encoding/json"
	"fmt"
	"time"
)

// Update is a live delta. It belongs to the event with the sequence Event (a message_start or tool_execution_start) and
// is its Nth, from 1. It is not part of the log.
type Update struct {
	Session string
	Event   uint64
	N       uint64
	Time    time.Time
	Source  string
	RunID   string
	TurnID  string
	Data    UpdateData
}

// ID returns <session>/<event>.<n>, the id of the CloudEvent.
func (u Update) ID() string { return fmt.Sprintf("%s/%d.%d", u.Session, u.Event, u.N) }

// UpdateData is the payload of an update: a *[MessageUpdate] or *[ToolExecutionUpdate].
type UpdateData interface {
	EventType() EventType
}

// MessageUpdate has the pieces of a model's reply since the last update, oldest first. Consecutive deltas of one block
// are joined. All updates of a message together are about as long as the message.
type MessageUpdate struct {
	MessageID              string        `json:"messageId"`
	AssistantMessageEvents []StreamEvent `json:"assistantMessageEvents"`
}

// ToolExecutionUpdate is a tool's partial result. It replaces the previous one.
type ToolExecutionUpdate struct {
	ToolCallID    string     `json:"toolCallId"`
	ToolName      string     `json:"toolName"`
	Call          CallKey    `json:"call,omitempty"`
	PartialResult ToolResult `json:"partialResult"`
}

// MarshalJSON never writes null for the list of events.
func (u *MessageUpdate) MarshalJSON() ([]byte, error) {
	type plain MessageUpdate
	p := plain(*u)
	p.AssistantMessageEvents = notNil(p.AssistantMessageEvents)
	return marshalPlain(p)
}

// EventType returns "message_update".
func (*MessageUpdate) EventType() EventType { return EventMessageUpdate }

// EventType returns "tool_execution_update".
func (*ToolExecutionUpdate) EventType() EventType { return EventToolExecutionUpdate }

// DecodeUpdateData decodes the payload of an update of the given type. An unknown type gives an [UnknownTypeError].
func DecodeUpdateData(t EventType, data []byte) (UpdateData, error) {
	var v UpdateData
	switch t {
	case EventMessageUpdate:
		v = new(MessageUpdate)
	case EventToolExecutionUpdate:
		v = new(ToolExecutionUpdate)
	default:
		return nil, &UnknownTypeError{What: "update", Type: string(t)}
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return v, nil
}
