package mistralconversations

import (
	"encoding/json"
	"slices"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// body is the body of a request.
type body struct {
	Model       string          `json:"model"`
	Stream      bool            `json:"stream"`
	Messages    []*message      `json:"messages"`
	MaxTokens   int64           `json:"max_tokens,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	Tools       []*chat.Tool    `json:"tools,omitempty"`
	ToolChoice  json.RawMessage `json:"tool_choice,omitempty"`
	thinking
}

// thinking holds the members of a request for thinking, which are also the API's own options.
type thinking struct {
	PromptMode      string `json:"prompt_mode,omitempty"`
	ReasoningEffort string `json:"reasoning_effort,omitempty"`
}

// effortModels lists the models that accept an effort. For other models, reasoning is on or off.
var effortModels = []string{"mistral-small-2603", "mistral-small-latest", "mistral-medium-3.5"}

// newBody returns the body of a request.
func newBody(req *providers.Request) (*body, error) {
	t, err := newThinking(req)
	if err != nil {
		return nil, err
	}
	return &body{
		Model: req.Model.ID, Stream: true, Messages: newMessages(req), MaxTokens: req.Output(), Temperature: req.Temperature,
		Tools: chat.NewTools(req.Tools, new(bool)), ToolChoice: req.ToolChoice, thinking: t,
	}, nil
}

func newThinking(req *providers.Request) (t thinking, err error) {
	if req.Direct {
		var vendor struct {
			PromptMode      string `json:"promptMode"`
			ReasoningEffort string `json:"reasoningEffort"`
		}
		err = req.DecodeVendor(&vendor)
		return thinking(vendor), err
	}
	level, requested := req.Level()
	switch {
	case !requested || level == schemas.ThinkingOff:
	case !slices.Contains(effortModels, req.Model.ID):
		t.PromptMode = "reasoning"
	case req.Model.ThinkingLevels[level] != nil:
		t.ReasoningEffort = *req.Model.ThinkingLevels[level]
	default:
		t.ReasoningEffort = "high" // the only effort that the API has
	}
	return t, nil
}
