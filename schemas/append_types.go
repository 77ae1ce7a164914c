package schemas

import (
	"encoding/json"
	"strconv"
)

func (e *TurnStart) appendJSON(o *object) {
	o.open()
	o.integer("turnIndex", int64(e.TurnIndex))
	o.end()
}

func (e *TurnEnd) appendJSON(o *object) {
	o.open()
	o.text("messageId", e.MessageID)
	o.name("toolResults")
	o.b = append(o.b, '[')
	for i, id := range e.ToolResults {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendString(o.b, id)
	}
	o.b = append(o.b, ']')
	if u := e.ContextUsage; u != nil {
		o.name("contextUsage")
		o.open()
		o.integer("tokens", u.Tokens)
		o.integer("contextWindow", u.ContextWindow)
		o.end()
	}
	o.end()
}

func (e *MessageStart) appendJSON(o *object) {
	o.open()
	o.text("messageId", e.MessageID)
	o.text("role", string(e.Role))
	o.optionalText("api", e.API)
	o.optionalText("provider", e.Provider)
	o.optionalText("model", e.Model)
	o.optionalText("toolCallId", e.ToolCallID)
	o.optionalText("toolName", e.ToolName)
	o.end()
}

func (e *MessageEnd) appendJSON(o *object) {
	o.open()
	o.text("messageId", e.MessageID)
	o.name("message")
	o.value(e.Message.Message)
	o.optionalFlag("interrupted", e.Interrupted)
	o.optionalFlag("failure", e.Failure)
	o.optionalText("failureCode", string(e.FailureCode))
	o.optionalFlag("retryable", e.Retryable)
	o.optionalText("terminationReason", string(e.TerminationReason))
	o.optionalInteger("durationMs", e.DurationMs)
	o.end()
}

func (e *ToolExecutionStart) appendJSON(o *object) {
	o.open()
	o.text("toolCallId", e.ToolCallID)
	o.text("toolName", e.ToolName)
	o.raw("args", e.Args)
	o.optionalText("nonce", e.Nonce)
	o.end()
}

func (e *ToolExecutionEnd) appendJSON(o *object) {
	o.open()
	o.text("toolCallId", e.ToolCallID)
	o.text("toolName", e.ToolName)
	o.text("call", string(e.Call))
	o.name("result")
	e.Result.appendJSON(o)
	o.flag("isError", e.IsError)
	o.optionalInteger("durationMs", e.DurationMs)
	o.optionalText("worker", e.Worker)
	o.end()
}

func (r ToolResult) appendJSON(o *object) {
	o.open()
	o.contents(r.Content)
	o.optionalRaw("details", r.Details)
	o.optionalFlag("terminate", r.Terminate)
	o.end()
}

func (r ToolRequest) appendJSON(o *object) {
	o.open()
	o.text("session", r.Session)
	o.text("runId", r.RunID)
	o.text("turnId", r.TurnID)
	o.text("call", string(r.Call))
	o.text("toolCallId", r.ToolCallID)
	o.text("toolName", r.ToolName)
	o.optionalText("version", r.Version)
	o.optionalText("workspace", r.Workspace)
	o.raw("arguments", r.Arguments)
	o.optionalText("effect", string(r.Effect))
	o.optionalInteger("timeoutMs", r.TimeoutMs)
	o.name("startSeq")
	o.b = strconv.AppendUint(o.b, r.StartSeq, 10)
	o.optionalText("traceparent", r.TraceParent)
	o.optionalText("replyTo", r.ReplyTo)
	o.optionalText("nonce", r.Nonce)
	o.optionalText("revision", r.Revision)
	o.end()
}

func (a ToolAnswer) appendJSON(o *object) {
	o.open()
	o.optionalText("id", a.ID)
	o.text("call", string(a.Call))
	o.text("toolCallId", a.ToolCallID)
	o.text("toolName", a.ToolName)
	o.name("result")
	a.Result.appendJSON(o)
	o.flag("isError", a.IsError)
	o.optionalInteger("durationMs", a.DurationMs)
	o.optionalText("worker", a.Worker)
	o.optionalText("nonce", a.Nonce)
	o.end()
}

func (m *AssistantMessage) appendJSON(o *object) {
	o.open()
	o.text("role", string(RoleAssistant))
	o.contents(m.Content)
	o.optionalText("api", m.API)
	o.optionalText("provider", m.Provider)
	o.optionalText("model", m.Model)
	o.optionalText("responseModel", m.ResponseModel)
	o.optionalText("responseId", m.ResponseID)
	o.name("usage")
	m.Usage.appendJSON(o)
	o.text("stopReason", string(m.StopReason))
	o.optionalText("errorMessage", m.ErrorMessage)
	o.optionalInteger("timestamp", m.Timestamp)
	o.end()
}

func (m *UserMessage) appendJSON(o *object) {
	o.open()
	o.text("role", string(RoleUser))
	o.contents(m.Content)
	o.optionalInteger("timestamp", m.Timestamp)
	o.end()
}

func (m *ToolResultMessage) appendJSON(o *object) {
	o.open()
	o.text("role", string(RoleToolResult))
	o.text("toolCallId", m.ToolCallID)
	o.text("toolName", m.ToolName)
	o.contents(m.Content)
	o.optionalRaw("details", m.Details)
	o.flag("isError", m.IsError)
	o.optionalInteger("timestamp", m.Timestamp)
	o.end()
}

func (u Usage) appendJSON(o *object) {
	o.open()
	o.integer("input", u.Input)
	o.integer("output", u.Output)
	o.integer("cacheRead", u.CacheRead)
	o.integer("cacheWrite", u.CacheWrite)
	o.integer("totalTokens", u.TotalTokens)
	o.name("cost")
	o.open()
	o.money("input", u.Cost.Input)
	o.money("output", u.Cost.Output)
	o.money("cacheRead", u.Cost.CacheRead)
	o.money("cacheWrite", u.Cost.CacheWrite)
	o.money("total", u.Cost.Total)
	o.end()
	o.end()
}

// contents appends the member content; a nil list becomes an empty one.
func (o *object) contents(cs Contents) {
	o.name("content")
	o.b = append(o.b, '[')
	for i, c := range cs {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.value(c)
	}
	o.b = append(o.b, ']')
}

func (c Text) appendJSON(o *object) {
	o.open()
	o.text("type", string(ContentText))
	o.text("text", c.Text)
	o.optionalText("textSignature", c.TextSignature)
	o.end()
}

func (c Thinking) appendJSON(o *object) {
	o.open()
	o.text("type", string(ContentThinking))
	o.text("thinking", c.Thinking)
	o.optionalText("thinkingSignature", c.ThinkingSignature)
	o.optionalFlag("redacted", c.Redacted)
	o.end()
}

func (c ToolCall) appendJSON(o *object) {
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	o.open()
	o.text("type", string(ContentToolCall))
	o.text("id", c.ID)
	o.text("name", c.Name)
	o.raw("arguments", c.Arguments)
	o.optionalText("thoughtSignature", c.ThoughtSignature)
	o.optionalFlag("incomplete", c.Incomplete)
	o.end()
}
