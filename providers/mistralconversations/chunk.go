package mistralconversations

import (
	"encoding/json"

	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// chunk is an event of the stream.
type chunk struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"` // "error" if the event is an error and not a chunk
	Error   json.RawMessage `json:"error"`
	Usage   *usage          `json:"usage"`
	Choices []struct {
		Delta struct {
			Content   chat.Content `json:"content"`
			ToolCalls []callDelta  `json:"tool_calls"`
			chat.Reasoning
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

type callDelta struct {
	ID       string `json:"id"`
	Index    int    `json:"index"`
	Function struct {
		Name      string         `json:"name"`
		Arguments chat.Arguments `json:"arguments"`
	} `json:"function"`
}

// usage holds token counts.
type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

func (u *usage) tokens() schemas.Usage {
	return schemas.Usage{Input: u.Prompt, Output: u.Completion, TotalTokens: u.Total}
}
