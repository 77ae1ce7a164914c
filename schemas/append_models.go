package schemas

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
