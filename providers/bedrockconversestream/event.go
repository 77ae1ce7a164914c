package bedrockconversestream

import (
	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// event is any of the vendor's events. Each event has some of the members. Its name is in a header of the frame.
type event struct {
	Role       string `json:"role"`
	Index      int    `json:"contentBlockIndex"`
	Start      start  `json:"start"`
	Delta      delta  `json:"delta"`
	StopReason string `json:"stopReason"`
	Usage      *usage `json:"usage"`
}

// start is the beginning of a block that is a tool call.
type start struct {
	ToolUse *struct {
		ID   string `json:"toolUseId"`
		Name string `json:"name"`
	} `json:"toolUse"`
}

// delta is a piece of a block. It has one of the members.
type delta struct {
	Text    *wtf8.Text `json:"text"`
	ToolUse *struct {
		Input wtf8.Text `json:"input"`
	} `json:"toolUse"`
	Reasoning *struct {
		Text      wtf8.Text `json:"text"`
		Signature string    `json:"signature"`
		Redacted  []byte    `json:"redactedContent"`
	} `json:"reasoningContent"`
}

// usage holds token counts.
type usage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	CacheRead  int64 `json:"cacheReadInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
	Total      int64 `json:"totalTokens"`
}

func (u usage) counts() schemas.Usage {
	return schemas.Usage{
		Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		TotalTokens: u.Total,
	}
}

// stopReasons maps the vendor's stop reasons. Those of a blocked or malformed reply are errors.
var stopReasons = map[string]schemas.StopReason{
	"end_turn":                      schemas.StopStop,
	"stop_sequence":                 schemas.StopStop,
	"max_tokens":                    schemas.StopLength,
	"model_context_window_exceeded": schemas.StopLength,
	"tool_use":                      schemas.StopToolUse,
	"guardrail_intervened":          schemas.StopError,
	"content_filtered":              schemas.StopError,
	"malformed_model_output":        schemas.StopError,
	"malformed_tool_use":            schemas.StopError,
}
