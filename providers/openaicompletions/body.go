package openaicompletions

import (
	"encoding/json"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// body is the body of a request without stream: true, which the SDK adds.
type body struct {
	Model                string          `json:"model"`
	Messages             []*message      `json:"messages"`
	StreamOptions        *streamOptions  `json:"stream_options,omitempty"`
	Store                *bool           `json:"store,omitempty"`
	MaxTokens            int64           `json:"max_tokens,omitempty"`
	MaxCompletionTokens  int64           `json:"max_completion_tokens,omitempty"`
	Temperature          *float64        `json:"temperature,omitempty"`
	PromptCacheKey       string          `json:"prompt_cache_key,omitempty"`
	PromptCacheRetention string          `json:"prompt_cache_retention,omitempty"`
	Tools                []*chat.Tool    `json:"tools,omitzero"` // an empty list is sent
	ToolStream           bool            `json:"tool_stream,omitempty"`
	ToolChoice           json.RawMessage `json:"tool_choice,omitempty"`
	Provider             json.RawMessage `json:"provider,omitempty"`
	ProviderOptions      any             `json:"providerOptions,omitempty"`
	thinking
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// newBody returns the body of a request.
func newBody(req *providers.Request, c *Compat) (*body, error) {
	level, err := levelOf(req)
	if err != nil {
		return nil, err
	}
	m := req.Model
	b := &body{
		Model: m.ID, Messages: newMessages(req, c), Temperature: req.Temperature, ToolChoice: req.ToolChoice,
		thinking: newThinking(m, c, level),
	}
	if c.SupportsUsageInStreaming {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if c.SupportsStore {
		b.Store = new(bool)
	}
	if c.MaxTokensField == maxTokens {
		b.MaxTokens = req.Output()
	} else {
		b.MaxCompletionTokens = req.Output()
	}
	b.addTools(req, c)
	b.addCaching(req, c)
	b.addRouting(m, c)
	return b, nil
}

// addTools adds the tools. Some routers refuse a history with tool calls in a request without a list of tools, so such
// a request has an empty list.
func (b *body) addTools(req *providers.Request, c *Compat) {
	switch {
	case len(req.Tools) > 0:
		var strict *bool
		if c.SupportsStrictMode {
			strict = new(bool)
		}
		b.Tools = chat.NewTools(req.Tools, strict)
		b.ToolStream = c.ZaiToolStream
	case hasToolTraffic(req.Messages):
		b.Tools = []*chat.Tool{}
	}
}

func hasToolTraffic(messages schemas.Messages) bool {
	for _, m := range messages {
		switch m := m.(type) {
		case *schemas.ToolResultMessage:
			return true
		case *schemas.AssistantMessage:
			if len(m.Content.ToolCalls()) > 0 {
				return true
			}
		}
	}
	return false
}

// addRouting adds the vendors that a router may use.
func (b *body) addRouting(m *providers.Model, c *Compat) {
	if isAt(m, "openrouter.ai") {
		b.Provider = c.OpenRouterRouting
	}
	if routing := c.VercelGatewayRouting; isAt(m, "ai-gateway.vercel.sh") &&
		(routing.Only != nil || routing.Order != nil) {
		b.ProviderOptions = map[string]any{"gateway": routing}
	}
}
