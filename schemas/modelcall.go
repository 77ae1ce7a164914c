package schemas

import (
	"encoding/json"
	"time"
)

// Headers of the messages of a model call on a bus. Each direction of a call counts its own.
const (
	HeaderModelSeq    = "Loopbus-Model-Seq"    // number of the message: 1, 2, 3 ... without a gap
	HeaderModelMore   = "Loopbus-Model-More"   // "1": the payload continues in the next message
	HeaderModelLines  = "Loopbus-Model-Lines"  // "1", of a request: an answer may have several frames, one a line
	HeaderModelToken  = "Loopbus-Model-Token"  // of a request: what a cancellation or a heartbeat names
	HeaderModelCancel = "Loopbus-Model-Cancel" // the token, or "1": stop the call; such a message has no number
	// HeaderModelHeartbeat is "1" in a request whose caller sends heartbeats: messages without a number in which this
	// header is the token, or "1".
	HeaderModelHeartbeat = "Loopbus-Model-Heartbeat"
)

// ModelAnswers is the token below a client's inbox at which it receives the answers of models:
// _INBOX_<user>.models.<random>. A server of models may publish there, and nowhere else in the inbox.
const ModelAnswers = "models"

// ModelFrame is one payload of the answer to a [ModelRequest] on a bus. The first one names the call. Message belongs
// to the events start, done and error, which do not encode theirs.
type ModelFrame struct {
	Call    string            `json:"call,omitempty"`
	Event   *StreamEvent      `json:"event,omitempty"`
	Message *AssistantMessage `json:"message,omitempty"`
}

// KeyAnswer is the answer of a key service or a key command that does not print the key as plain text. It is stored
// nowhere: no event, log line or error has a key.
type KeyAnswer struct {
	Key       string    `json:"key"`                // empty if there is none
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero: the key is used once
}

func (r ModelRequest) appendJSON(o *object) {
	o.open()
	o.name("model")
	r.Model.appendJSON(o)
	o.optionalText("systemPrompt", r.SystemPrompt)
	o.name("messages")
	r.Messages.appendJSON(o)
	if len(r.Tools) > 0 {
		o.name("tools")
		o.value(r.Tools)
	}
	o.optionalText("thinkingLevel", string(r.ThinkingLevel))
	o.optionalText("sessionId", r.SessionID)
	o.optionalInteger("attempt", int64(r.Attempt))
	o.optionalInteger("maxTokens", r.MaxTokens)
	o.end()
}

func (m ModelRef) appendJSON(o *object) {
	o.open()
	o.optionalText("api", m.API)
	o.optionalText("provider", m.Provider)
	o.text("id", m.ID)
	o.end()
}

func (ms Messages) appendJSON(o *object) {
	o.b = append(o.b, '[')
	for i, m := range ms {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.value(m)
	}
	o.b = append(o.b, ']')
}

func (f ModelFrame) appendJSON(o *object) {
	o.open()
	o.optionalText("call", f.Call)
	if f.Event != nil {
		o.name("event")
		f.Event.appendJSON(o)
	}
	if f.Message != nil {
		o.name("message")
		f.Message.appendJSON(o)
	}
	o.end()
}

func (e StreamEvent) appendJSON(o *object) {
	o.open()
	o.text("type", string(e.Type))
	if e.Type != StreamStart && !e.Terminal() {
		o.integer("contentIndex", int64(e.ContentIndex))
	}
	switch e.Type {
	case StreamTextDelta, StreamThinkingDelta, StreamToolCallDelta:
		o.text("delta", e.Delta)
	case StreamTextEnd, StreamThinkingEnd:
		o.text("content", e.Content)
	case StreamToolCallEnd:
		if e.ToolCall != nil {
			o.name("toolCall")
			o.value(e.ToolCall)
		}
	case StreamToolCallStart:
		if e.ToolCall != nil {
			o.optionalText("id", e.ToolCall.ID)
			o.optionalText("toolName", e.ToolCall.Name)
		}
	case StreamStart, StreamDone:
		o.optionalText("reason", string(e.Reason))
	case StreamError:
		o.optionalText("reason", string(e.Reason))
		o.optionalText("failureCode", string(e.FailureCode))
	}
	o.end()
}

// DecodeModelRequest decodes a [ModelRequest].
func DecodeModelRequest(payload []byte) (r ModelRequest, err error) {
	if r, ok := writtenModelRequest(payload); ok {
		return r, nil
	}
	err = json.Unmarshal(payload, &r)
	return r, err
}

// DecodeModelFrame decodes a [ModelFrame].
func DecodeModelFrame(payload []byte) (f ModelFrame, err error) {
	if f, ok := writtenModelFrame(payload); ok {
		return f, nil
	}
	err = json.Unmarshal(payload, &f)
	return f, err
}

func writtenModelRequest(payload []byte) (r ModelRequest, ok bool) {
	w := newWrittenObject(payload)
	w.open()
	w.need("model")
	w.open()
	r.Model = ModelRef{API: w.optionalText("api"), Provider: w.optionalText("provider"), ID: w.neededText("id")}
	w.close()
	r.SystemPrompt = w.optionalText("systemPrompt")
	w.need("messages")
	r.Messages = w.messages()
	if w.has("tools") {
		w.ok = json.Unmarshal(w.raw(), &r.Tools) == nil && w.ok && len(r.Tools) > 0
	}
	r.ThinkingLevel = ThinkingLevel(w.optionalText("thinkingLevel"))
	r.SessionID = w.optionalText("sessionId")
	r.Attempt = int(w.optionalCount("attempt"))
	r.MaxTokens = int64(w.optionalCount("maxTokens"))
	w.close()
	return r, w.complete()
}

// messages reads a list of messages of any roles.
func (w *writtenObject) messages() Messages {
	list := Messages{}
	w.want("[")
	for w.ok && w.pos < len(w.text) && w.text[w.pos] != ']' {
		if len(list) > 0 {
			w.want(",")
		}
		before, m := *w, w.message()
		if !w.ok {
			var err error
			*w = before
			m, err = DecodeMessage(w.raw())
			w.ok = w.ok && err == nil
		}
		list = append(list, m)
	}
	w.want("]")
	w.begun = true
	return list
}

func writtenModelFrame(payload []byte) (f ModelFrame, ok bool) {
	w := newWrittenObject(payload)
	w.open()
	f.Call = w.optionalText("call")
	if w.has("event") {
		f.Event = w.streamEvent()
	}
	if w.has("message") {
		w.open()
		w.ok = string(w.neededWord("role")) == string(RoleAssistant) && w.ok
		f.Message = w.assistant()
		w.close()
	}
	w.close()
	return f, w.complete()
}

func (w *writtenObject) streamEvent() *StreamEvent {
	w.open()
	e := &StreamEvent{Type: StreamEventType(w.neededText("type"))}
	if e.Type != StreamStart && !e.Terminal() {
		w.need("contentIndex")
		e.ContentIndex = int(w.count())
	}
	switch e.Type {
	case StreamTextStart, StreamThinkingStart:
	case StreamTextDelta, StreamThinkingDelta, StreamToolCallDelta:
		e.Delta = w.neededText("delta")
	case StreamTextEnd, StreamThinkingEnd:
		e.Content = w.neededText("content")
	case StreamToolCallEnd:
		w.need("toolCall")
		w.open()
		w.ok = w.neededText("type") == string(ContentToolCall) && w.ok
		e.ToolCall = new(w.toolCall())
		w.close()
	case StreamToolCallStart:
		if call := (ToolCall{ID: w.optionalText("id"), Name: w.optionalText("toolName")}); call.ID+call.Name != "" {
			e.ToolCall = &call
		}
	case StreamStart, StreamDone:
		e.Reason = StopReason(w.optionalText("reason"))
	case StreamError:
		e.Reason, e.FailureCode = StopReason(w.optionalText("reason")), FailureCode(w.optionalText("failureCode"))
	default:
		w.ok = false
	}
	w.close()
	return e
}
