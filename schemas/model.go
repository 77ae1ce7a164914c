package schemas

import (
	"context"
	"encoding/json"
	"errors"
)

// ModelRef names a model: its API, its provider, and its id there.
type ModelRef struct {
	API      string `json:"api,omitempty"`
	Provider string `json:"provider,omitempty"`
	ID       string `json:"id"`
}

// String returns provider/id, or the id if no provider is known.
func (m ModelRef) String() string {
	if m.Provider == "" {
		return m.ID
	}
	return m.Provider + "/" + m.ID
}

// ThinkingLevel is how much a model reasons before it answers.
type ThinkingLevel string

// The thinking levels of pi. The zero value counts as [ThinkingOff].
const (
	ThinkingOff     ThinkingLevel = "off"
	ThinkingMinimal ThinkingLevel = "minimal"
	ThinkingLow     ThinkingLevel = "low"
	ThinkingMedium  ThinkingLevel = "medium"
	ThinkingHigh    ThinkingLevel = "high"
	ThinkingXHigh   ThinkingLevel = "xhigh"
)

// QueueMode is how much of a queue one poll takes.
type QueueMode string

// The queue modes. The zero value counts as [QueueOneAtATime].
const (
	QueueOneAtATime QueueMode = "one-at-a-time"
	QueueAll        QueueMode = "all"
)

// ModelRequest is one call of a model, made from the run's settings and the transcript. Attempt is the number of the
// retry, 0 for the first request. APIKey is resolved for each request and is never encoded.
type ModelRequest struct {
	Model         ModelRef         `json:"model"`
	SystemPrompt  string           `json:"systemPrompt,omitempty"`
	Messages      Messages         `json:"messages"`
	Tools         []ToolDefinition `json:"tools,omitempty"`
	ThinkingLevel ThinkingLevel    `json:"thinkingLevel,omitempty"` // empty for off
	SessionID     string           `json:"sessionId,omitempty"`
	Attempt       int              `json:"attempt,omitempty"`
	MaxTokens     int64            `json:"maxTokens,omitempty"` // of the reply; 0 is the provider's default
	APIKey        string           `json:"-"`
	// OnPayload, if not nil, is called with the JSON body of each request before it is sent to a vendor, and returns the
	// body that is sent in its place; an error cancels the request. Nothing else of the stream runs concurrently with the
	// call. A model that sends no such body from this process, or has signed it, does not call OnPayload.
	OnPayload func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error) `json:"-"`
}

// StreamEventType names an event of a model's stream.
type StreamEventType string

// The twelve stream events of pi.
const (
	StreamStart         StreamEventType = "start"
	StreamTextStart     StreamEventType = "text_start"
	StreamTextDelta     StreamEventType = "text_delta"
	StreamTextEnd       StreamEventType = "text_end"
	StreamThinkingStart StreamEventType = "thinking_start"
	StreamThinkingDelta StreamEventType = "thinking_delta"
	StreamThinkingEnd   StreamEventType = "thinking_end"
	StreamToolCallStart StreamEventType = "toolcall_start"
	StreamToolCallDelta StreamEventType = "toolcall_delta"
	StreamToolCallEnd   StreamEventType = "toolcall_end"
	StreamDone          StreamEventType = "done"
	StreamError         StreamEventType = "error"
)

// StreamEvent is a piece of a model's reply. A stream is start, any number of *_start, *_delta and *_end, and one done
// or error, which has the whole Message; readers ignore what follows. A delta has only its own text, not that of the
// deltas before. The Message of start is the reply's identity, without content.
type StreamEvent struct {
	Type         StreamEventType
	ContentIndex int
	Delta        string
	Content      string    // *_end of text and thinking: the whole block
	ToolCall     *ToolCall // toolcall_end: the whole call; toolcall_start: its id and name, if known
	Reason       StopReason
	FailureCode  FailureCode       // error with reason error: kind of the failure, if known
	Message      *AssistantMessage // start, done, error; not encoded
}

// Terminal reports whether the event is the last of its stream.
func (e StreamEvent) Terminal() bool { return e.Type == StreamDone || e.Type == StreamError }

type streamEventJSON struct {
	Type         StreamEventType `json:"type"`
	ContentIndex *int            `json:"contentIndex,omitempty"`
	Delta        *string         `json:"delta,omitempty"`
	Content      *string         `json:"content,omitempty"`
	ToolCall     *ToolCall       `json:"toolCall,omitempty"`
	ID           string          `json:"id,omitempty"`
	ToolName     string          `json:"toolName,omitempty"`
	Reason       StopReason      `json:"reason,omitempty"`
	FailureCode  FailureCode     `json:"failureCode,omitempty"`
}

// MarshalJSON writes the members that the event's type has, as pi's wire form does.
func (e StreamEvent) MarshalJSON() ([]byte, error) {
	out := streamEventJSON{Type: e.Type, ContentIndex: &e.ContentIndex}
	switch e.Type {
	case StreamTextDelta, StreamThinkingDelta, StreamToolCallDelta:
		out.Delta = &e.Delta
	case StreamTextEnd, StreamThinkingEnd:
		out.Content = &e.Content
	case StreamToolCallEnd:
		out.ToolCall = e.ToolCall
	case StreamToolCallStart:
		if e.ToolCall != nil {
			out.ID, out.ToolName = e.ToolCall.ID, e.ToolCall.Name
		}
	case StreamStart, StreamDone:
		out.ContentIndex, out.Reason = nil, e.Reason
	case StreamError:
		out.ContentIndex, out.Reason, out.FailureCode = nil, e.Reason, e.FailureCode
	}
	return marshalPlain(out)
}

// UnmarshalJSON decodes what MarshalJSON writes. An unknown type gives an [UnknownTypeError]. The ToolCall of a
// toolcall_end is never nil.
func (e *StreamEvent) UnmarshalJSON(data []byte) error {
	var in streamEventJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	switch in.Type {
	case StreamStart, StreamDone, StreamError, StreamTextStart, StreamTextDelta, StreamTextEnd, StreamThinkingStart,
		StreamThinkingDelta, StreamThinkingEnd, StreamToolCallStart, StreamToolCallDelta:
	case StreamToolCallEnd:
		if in.ToolCall == nil {
			return errors.New("toolcall_end: no tool call")
		}
	default:
		return &UnknownTypeError{What: "stream event", Type: string(in.Type)}
	}
	*e = StreamEvent{Type: in.Type, ToolCall: in.ToolCall, Reason: in.Reason, FailureCode: in.FailureCode}
	if in.ContentIndex != nil {
		e.ContentIndex = *in.ContentIndex
	}
	if in.Delta != nil {
		e.Delta = *in.Delta
	}
	if in.Content != nil {
		e.Content = *in.Content
	}
	if in.ID != "" || in.ToolName != "" {
		e.ToolCall = &ToolCall{ID: in.ID, Name: in.ToolName}
	}
	return nil
}
