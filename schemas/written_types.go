package schemas

// result parses a tool's result.
func (w *writtenObject) result() (r ToolResult) {
	w.open()
	w.need("content")
	r.Content = w.contents()
	if w.has("details") {
		r.Details = w.json()
	}
	if w.has("terminate") {
		r.Terminate = w.flag()
		w.ok = w.ok && r.Terminate
	}
	w.close()
	return r
}

// contents parses a list of blocks. Lists with images or signatures are left to the decoder.
func (w *writtenObject) contents() Contents {
	list := Contents{}
	w.want("[")
	for w.ok && w.pos < len(w.text) && w.text[w.pos] != ']' {
		if len(list) > 0 {
			w.want(",")
		}
		w.open()
		switch string(w.neededWord("type")) {
		case string(ContentText):
			list = append(list, Text{Text: w.neededText("text")})
		case string(ContentThinking):
			list = append(list, Thinking{Thinking: w.neededText("thinking")})
		case string(ContentToolCall):
			list = append(list, w.toolCall())
		default:
			w.ok = false
		}
		w.close()
	}
	w.want("]")
	w.begun = true
	return list
}

// toolCall parses the members after the type.
func (w *writtenObject) toolCall() ToolCall {
	call := ToolCall{ID: w.neededText("id"), Name: w.neededText("name")}
	w.need("arguments")
	call.Arguments = w.json()
	return call
}

// writtenMessage parses a message of a transcript.
func writtenMessage(raw []byte) (m Message, ok bool) {
	w := newWrittenObject(raw)
	m = w.message()
	return m, w.complete()
}

func (w *writtenObject) message() (m Message) {
	w.open()
	switch string(w.neededWord("role")) {
	case string(RoleUser):
		m = w.user()
	case string(RoleAssistant):
		m = w.assistant()
	case string(RoleToolResult):
		m = w.toolResult()
	default:
		w.ok = false
	}
	w.close()
	return m
}

func (w *writtenObject) user() *UserMessage {
	m := new(UserMessage)
	w.need("content")
	m.Content = w.contents()
	m.Timestamp = w.optionalCount("timestamp")
	return m
}

func (w *writtenObject) assistant() *AssistantMessage {
	m := new(AssistantMessage)
	w.need("content")
	m.Content = w.contents()
	m.API, m.Provider, m.Model = w.optionalText("api"), w.optionalText("provider"), w.optionalText("model")
	m.ResponseModel, m.ResponseID = w.optionalText("responseModel"), w.optionalText("responseId")
	w.need("usage")
	m.Usage = w.usage()
	m.StopReason = StopReason(w.neededText("stopReason"))
	m.ErrorMessage = w.optionalText("errorMessage")
	m.Timestamp = w.optionalCount("timestamp")
	return m
}

func (w *writtenObject) usage() (u Usage) {
	w.open()
	for _, to := range []struct {
		name  string
		count *int64
	}{{"input", &u.Input}, {"output", &u.Output}, {"cacheRead", &u.CacheRead}, {"cacheWrite", &u.CacheWrite},
		{"totalTokens", &u.TotalTokens}} {
		w.need(to.name)
		*to.count = w.count()
	}
	w.need("cost")
	w.open()
	for _, to := range []struct {
		name string
		cost *float64
	}{{"input", &u.Cost.Input}, {"output", &u.Cost.Output}, {"cacheRead", &u.Cost.CacheRead},
		{"cacheWrite", &u.Cost.CacheWrite}, {"total", &u.Cost.Total}} {
		w.need(to.name)
		*to.cost = w.money()
	}
	w.close()
	w.close()
	return u
}

func (w *writtenObject) toolResult() *ToolResultMessage {
	m := new(ToolResultMessage)
	m.ToolCallID, m.ToolName = w.neededText("toolCallId"), w.neededText("toolName")
	w.need("content")
	m.Content = w.contents()
	if w.has("details") {
		m.Details = w.json()
	}
	w.need("isError")
	m.IsError = w.flag()
	m.Timestamp = w.optionalCount("timestamp")
	return m
}
