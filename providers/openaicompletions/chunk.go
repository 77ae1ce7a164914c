package openaicompletions

import (
	"encoding/json"

	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// chunk is an event of the stream.
type chunk struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
	Usage        *usage `json:"usage"` // Moonshot sends it here
}

// delta is a piece of the reply. Of the reasoning details only the encrypted ones are used: those in plain text repeat
// the other members.
type delta struct {
	Content          chat.Content      `json:"content"`
	ToolCalls        []callDelta       `json:"tool_calls"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	chat.Reasoning
}

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string         `json:"name"`
		Arguments chat.Arguments `json:"arguments"`
	} `json:"function"`
}

// usage holds token counts. The counts in Details are included in PromptTokens.
type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	CacheHitTokens   int64 `json:"prompt_cache_hit_tokens"` // DeepSeek
	Details          struct {
		CachedTokens     *int64 `json:"cached_tokens"`      // read from and written to the cache
		CacheWriteTokens int64  `json:"cache_write_tokens"` // OpenRouter
	} `json:"prompt_tokens_details"`
}

func (u *usage) tokens() schemas.Usage {
	cached := u.CacheHitTokens
	if u.Details.CachedTokens != nil {
		cached = *u.Details.CachedTokens
	}
	out := schemas.Usage{Output: u.CompletionTokens, CacheRead: cached, CacheWrite: u.Details.CacheWriteTokens}
	if out.CacheWrite > 0 {
		out.CacheRead = max(0, cached-out.CacheWrite)
	}
	out.Input = max(0, u.PromptTokens-out.CacheRead-out.CacheWrite)
	out.TotalTokens = out.Input + out.Output + out.CacheRead + out.CacheWrite
	return out
}
