package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Role is the author of a message. Any role but the three below is a custom one: its messages stay in the transcript
// and are left out of model requests unless convertToLlm maps them.
type Role string

// The roles that models know.
const (
	RoleUser       Role = "user"
	RoleAssistant  Role = "assistant"
	RoleToolResult Role = "toolResult"
)

// StopReason is why a reply ended.
type StopReason string

// The stop reasons of pi.
const (
	StopStop    StopReason = "stop"
	StopLength  StopReason = "length"
	StopToolUse StopReason = "toolUse"
	StopError   StopReason = "error"
	StopAborted StopReason = "aborted"
)

// Message is one entry of a transcript: [UserMessage], [AssistantMessage], [ToolResultMessage] or [CustomMessage].
type Message interface {
	MessageRole() Role
}

// UserMessage is a message of a person, or of a program in their place. Timestamp is Unix milliseconds.
type UserMessage struct {
	Content   Contents `json:"content"`
	Timestamp int64    `json:"timestamp,omitempty"`
}

// AssistantMessage is a model's reply. API, Provider and Model name the model. Timestamp is Unix milliseconds.
type AssistantMessage struct {
	Content       Contents   `json:"content"`
	API           string     `json:"api,omitempty"`
	Provider      string     `json:"provider,omitempty"`
	Model         string     `json:"model,omitempty"`
	ResponseModel string     `json:"responseModel,omitempty"`
	ResponseID    string     `json:"responseId,omitempty"`
	Usage         Usage      `json:"usage"`
	StopReason    StopReason `json:"stopReason"`
	ErrorMessage  string     `json:"errorMessage,omitempty"`
	Timestamp     int64      `json:"timestamp,omitempty"`
}

// Failed reports whether the reply ended the run: stop reason error or aborted.
func (m *AssistantMessage) Failed() bool {
	return m.StopReason == StopError || m.StopReason == StopAborted
}

// ToolResultMessage is the result of a tool call. Details is any JSON, kept byte for byte. Timestamp is Unix
// milliseconds.
type ToolResultMessage struct {
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Content    Contents        `json:"content"`
	Details    json.RawMessage `json:"details,omitempty"`
	IsError    bool            `json:"isError"`
	Timestamp  int64           `json:"timestamp,omitempty"`
}

// CustomMessage has a role that an application has named. Raw is the whole message as JSON, its role included.
type CustomMessage struct {
	Role Role
	Raw  json.RawMessage
}

// MessageRole returns "user".
func (*UserMessage) MessageRole() Role { return RoleUser }

// MessageRole returns "assistant".
func (*AssistantMessage) MessageRole() Role { return RoleAssistant }

// MessageRole returns "toolResult".
func (*ToolResultMessage) MessageRole() Role { return RoleToolResult }

// MessageRole returns the custom role.
func (m *CustomMessage) MessageRole() Role { return m.Role }

// MarshalJSON writes the message with its role member first.
func (m *UserMessage) MarshalJSON() ([]byte, error) {
	type plain UserMessage
	return marshalTyped("role", string(RoleUser), (*plain)(m))
}

// MarshalJSON writes the message with its role member first.
func (m *AssistantMessage) MarshalJSON() ([]byte, error) {
	type plain AssistantMessage
	return marshalTyped("role", string(RoleAssistant), (*plain)(m))
}

// MarshalJSON writes the message with its role member first.
func (m *ToolResultMessage) MarshalJSON() ([]byte, error) {
	type plain ToolResultMessage
	return marshalTyped("role", string(RoleToolResult), (*plain)(m))
}

// MarshalJSON writes the message as it was read.
func (m *CustomMessage) MarshalJSON() ([]byte, error) { return m.Raw, nil }

// DecodeMessage decodes one message of any role. The content of a user message may be a plain string.
func DecodeMessage(raw []byte) (Message, error) {
	if m, ok := writtenMessage(raw); ok {
		return m, nil
	}
	return decodeMessage(raw)
}

func decodeMessage(raw []byte) (Message, error) {
	var head struct {
		Role Role `json:"role"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	var m Message
	switch head.Role {
	case "":
		return nil, errors.New("schemas: message without role")
	case RoleUser:
		m = new(UserMessage)
	case RoleAssistant:
		m = new(AssistantMessage)
	case RoleToolResult:
		m = new(ToolResultMessage)
	default:
		return &CustomMessage{Role: head.Role, Raw: append(json.RawMessage(nil), raw...)}, nil
	}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%s message: %w", head.Role, err)
	}
	return m, nil
}

// Messages is a list of messages that decodes from JSON. A nil list encodes as [].
type Messages []Message

// MarshalJSON never writes null.
func (ms Messages) MarshalJSON() ([]byte, error) {
	return appendValue(nil, ms)
}

// UnmarshalJSON reads a list of messages of any roles.
func (ms *Messages) UnmarshalJSON(data []byte) error {
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return err
	}
	list := make(Messages, 0, len(raws))
	for i, raw := range raws {
		m, err := DecodeMessage(raw)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		list = append(list, m)
	}
	*ms = list
	return nil
}

// sizeOfPart is an estimate of what a message or a block of content takes besides its texts, in bytes.
const sizeOfPart = 64

// Size estimates how many bytes the messages take in memory: their texts, images and raw JSON, and 64 for each message
// and block.
func (ms Messages) Size() int { return ms.size(func(text string) int { return len(text) }) }

// JSONSize estimates how many bytes the messages take as JSON. It is [Messages.Size] with texts counted by
// [QuotedSize], and takes time in proportion to their length.
func (ms Messages) JSONSize() int { return ms.size(QuotedSize) }

func (ms Messages) size(of func(text string) int) (n int) {
	for _, m := range ms {
		n += sizeOfPart
		switch m := m.(type) {
		case *UserMessage:
			n += m.Content.size(of)
		case *AssistantMessage:
			n += m.Content.size(of) + len(m.API) + len(m.Provider) + len(m.Model) + len(m.ResponseModel) +
				len(m.ResponseID) + of(m.ErrorMessage)
		case *ToolResultMessage:
			n += m.Content.size(of) + of(m.ToolCallID) + of(m.ToolName) + len(m.Details)
		case *CustomMessage:
			n += len(m.Raw)
		}
	}
	return n
}

func (cs Contents) size(of func(text string) int) (n int) {
	for _, c := range cs {
		n += sizeOfPart
		switch c := c.(type) {
		case Text:
			n += of(c.Text) + of(c.TextSignature)
		case Thinking:
			n += of(c.Thinking) + of(c.ThinkingSignature)
		case Image:
			n += len(c.Data) + len(c.MimeType)
		case ToolCall:
			n += of(c.ID) + of(c.Name) + len(c.Arguments) + of(c.ThoughtSignature)
		}
	}
	return n
}

// AnyMessage is a single [Message] as a member of another value.
type AnyMessage struct{ Message }

// MarshalJSON writes the message; without one, null.
func (m AnyMessage) MarshalJSON() ([]byte, error) {
	return appendValue(nil, m.Message)
}

// UnmarshalJSON reads a message of any role, or null.
func (m *AnyMessage) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		m.Message = nil
		return nil
	}
	msg, err := DecodeMessage(data)
	m.Message = msg
	return err
}
