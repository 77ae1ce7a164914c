package schemas

import "encoding/json"

// DecodeModelRequest reads a [ModelRequest].
func DecodeModelRequest(payload []byte) (r ModelRequest, err error) {
	if r, ok := writtenModelRequest(payload); ok {
		return r, nil
	}
	err = json.Unmarshal(payload, &r)
	return r, err
}

// DecodeModelFrame reads a [ModelFrame].
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
		m, err := DecodeMessage(w.raw())
		w.ok = w.ok && err == nil
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
		w.ok = w.neededText("role") == string(RoleAssistant) && w.ok
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
