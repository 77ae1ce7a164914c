package gemini

import (
	"encoding/json"

	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// chunk is an event of the stream.
type chunk struct {
	Candidates []struct {
		Content struct {
			Parts []outputPart `json:"parts"`
		} `json:"content"`
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	UsageMetadata *usage          `json:"usageMetadata"`
	ResponseID    string          `json:"responseId"`
	Error         json.RawMessage `json:"error"`
}

type outputPart struct {
	Text             *chat.Text `json:"text"`
	Thought          bool       `json:"thought"`
	ThoughtSignature string     `json:"thoughtSignature"`
	FunctionCall     *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
}

type usage struct {
	Prompt     int64 `json:"promptTokenCount"`
	Cached     int64 `json:"cachedContentTokenCount"`
	Candidates int64 `json:"candidatesTokenCount"`
	Thoughts   int64 `json:"thoughtsTokenCount"`
	Total      int64 `json:"totalTokenCount"`
}

func (u usage) tokens() schemas.Usage {
	return schemas.Usage{
		Input: max(0, u.Prompt-u.Cached), Output: u.Candidates + u.Thoughts, CacheRead: u.Cached, TotalTokens: u.Total,
	}
}
