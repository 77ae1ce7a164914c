package openaicompletions

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers"
)

// Compat describes how a server differs from OpenAI. It is the compat member of a model in the catalogue; flags that
// are not set there follow from the model's provider or host.
type Compat struct {
	SupportsStore bool `json:"supportsStore"` // store: false is sent
	// SupportsDeveloperRole gives the system prompt of a model that reasons the role developer.
	SupportsDeveloperRole      bool   `json:"supportsDeveloperRole"`
	SupportsReasoningEffort    bool   `json:"supportsReasoningEffort"`    // reasoning_effort is sent
	SupportsUsageInStreaming   bool   `json:"supportsUsageInStreaming"`   // stream_options.include_usage is sent
	SupportsStrictMode         bool   `json:"supportsStrictMode"`         // tools have strict: false
	SupportsLongCacheRetention bool   `json:"supportsLongCacheRetention"` // long cache retention may be requested
	MaxTokensField             string `json:"maxTokensField"`             // max_tokens or max_completion_tokens

	RequiresToolResultName bool `json:"requiresToolResultName"` // tool results name their tool
	// RequiresAssistantAfterToolResult inserts an assistant message between a tool result and a user message.
	RequiresAssistantAfterToolResult bool `json:"requiresAssistantAfterToolResult"`
	RequiresThinkingAsText           bool `json:"requiresThinkingAsText"` // thinking is sent back as text
	// RequiresReasoningContent sends every assistant message of a reasoning model with reasoning_content, if empty.
	RequiresReasoningContent bool `json:"requiresReasoningContentOnAssistantMessages"`

	ThinkingFormat     ThinkingFormat `json:"thinkingFormat"`
	CacheControlFormat string         `json:"cacheControlFormat"` // anthropic: cache_control marks, else none
	ZaiToolStream      bool           `json:"zaiToolStream"`      // tool_stream: true is sent with tools

	SendSessionAffinityHeaders bool `json:"sendSessionAffinityHeaders"` // the session's id is sent in headers

	OpenRouterRouting    json.RawMessage `json:"openRouterRouting"` // OpenRouter's provider member
	VercelGatewayRouting struct {        // the vendors that the gateway may use, and their order
		Only  []string `json:"only,omitempty"`
		Order []string `json:"order,omitempty"`
	} `json:"vercelGatewayRouting"`
}

// The values of [Compat.MaxTokensField] and [Compat.CacheControlFormat].
const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
	cacheAnthropic      = "anthropic"
)

// compatOf returns the flags of the model: those that the catalogue sets, and the detected ones.
func compatOf(m *providers.Model) (Compat, error) {
	c := detect(m)
	err := m.DecodeCompat(&c)
	return c, err
}

// detect returns the flags that are known for the model's provider and host.
func detect(m *providers.Model) Compat {
	is := func(names ...string) bool { return slices.Contains(names, m.Provider) }
	var (
		xai        = is("xai") || isAt(m, "api.x.ai")
		zai        = is("zai") || isAt(m, "api.z.ai")
		moonshot   = is("moonshotai", "moonshotai-cn") || isAt(m, "api.moonshot.")
		deepseek   = is("deepseek") || isAt(m, "deepseek.com")
		openRouter = is("openrouter") || isAt(m, "openrouter.ai")
		workers    = is(cloudflareWorkers) || isAt(m, "api.cloudflare.com")
		gateway    = is(cloudflareGateway) || isAt(m, "gateway.ai.cloudflare.com")
		chutes     = isAt(m, "chutes.ai")
	)
	standard := !xai && !zai && !moonshot && !workers && !gateway && !chutes &&
		!is("cerebras", "opencode") && !isAt(m, "cerebras.ai", "opencode.ai", "deepseek.com")
	c := Compat{
		SupportsStore: standard, SupportsDeveloperRole: standard, SupportsUsageInStreaming: true,
		SupportsReasoningEffort:    !xai && !zai && !moonshot && !gateway,
		SupportsStrictMode:         !moonshot && !gateway,
		SupportsLongCacheRetention: !workers && !gateway,
		MaxTokensField:             maxCompletionTokens,
		RequiresReasoningContent:   deepseek,
		ThinkingFormat:             ThinkingOpenAI,
	}
	if chutes || moonshot || gateway {
		c.MaxTokensField = maxTokens
	}
	switch {
	case deepseek:
		c.ThinkingFormat = ThinkingDeepSeek
	case zai:
		c.ThinkingFormat = ThinkingZai
	case openRouter:
		c.ThinkingFormat = ThinkingOpenRouter
	}
	if is("openrouter") && strings.HasPrefix(m.ID, "anthropic/") {
		c.CacheControlFormat = cacheAnthropic
	}
	return c
}
