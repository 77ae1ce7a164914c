package providers

import (
	"regexp"

	"github.com/loopbus/loopbus/schemas"
)

// overflowTexts are how vendors say that a prompt does not fit.
var overflowTexts = regexp.MustCompile(`(?i)` +
	`prompt is too long|request_too_large` + // Anthropic
	`|input is too long for requested model` + // Bedrock
	`|exceeds the context window` + // OpenAI
	`|input token count.*exceeds the maximum` + // Google
	`|maximum prompt length is \d+` + // xAI
	`|reduce the length of the messages` + // Groq
	`|maximum context length is \d+ tokens` + // OpenRouter
	`|exceeds the limit of \d+` + // GitHub Copilot
	`|exceeds the available context size` + // llama.cpp
	`|greater than the context length` + // LM Studio
	`|context window exceeds limit` + // MiniMax
	`|exceeded model token limit` + // Kimi
	`|too large for model with \d+ maximum context length` + // Mistral
	`|model_context_window_exceeded` + // z.ai
	`|prompt too long; exceeded (?:max )?context length` + // Ollama
	`|context[_ ]length[_ ]exceeded|too many tokens|token limit exceeded` +
	`|^4(?:00|13)\s*(?:status code)?\s*\(no body\)`) // Cerebras

// notOverflowTexts are about the rate of requests, whatever else they say.
var notOverflowTexts = regexp.MustCompile(`(?i)^(?:Throttling error|Service unavailable):|rate limit|too many requests`)

// IsContextOverflow reports whether the reply says that the conversation is longer than the model can read: a shorter
// one would do, the same one again would not. contextWindow is the model's, in tokens; 0 if unknown. With it, replies of
// vendors that cut silently are found too: one that read more than fits, and one with no room left for a word.
func IsContextOverflow(m *schemas.AssistantMessage, contextWindow int64) bool {
	read := m.Usage.Input + m.Usage.CacheRead
	switch m.StopReason {
	case schemas.StopError:
		return overflowTexts.MatchString(m.ErrorMessage) && !notOverflowTexts.MatchString(m.ErrorMessage)
	case schemas.StopStop:
		return contextWindow > 0 && read > contextWindow
	case schemas.StopLength:
		return contextWindow > 0 && m.Usage.Output == 0 && float64(read) >= 0.99*float64(contextWindow)
	}
	return false
}

// retryableTexts are how vendors, proxies and this module's own packages say that trying again may help.
var retryableTexts = regexp.MustCompile(`(?i)overloaded|provider.?returned.?error|rate.?limit|too many requests` +
	`|\b(?:429|500|502|503|504)\b|service.?unavailable|server.?error|internal.?error|network.?error|connection.?error` +
	`|connection.?refused|connection.?lost|websocket.?closed|websocket.?error|other side closed|fetch failed|upstream.?connect` +
	`|reset before headers|socket hang up|ended without|stream ended before|http2 request did not get a response|timed? out|timeout` +
	`|terminated|retry delay`)

// quotaTexts say that somebody has to pay first.
var quotaTexts = regexp.MustCompile(`(?i)insufficient_quota|quota exceeded|exceeded your (?:monthly )?(?:usage|spend)|billing|out of budget` +
	`|GoUsageLimitError|"?code"?\s*:?\s*"?1308\b`)

// retryLater says that a quota comes back by itself: Google's words for a rate per minute are those for an unpaid bill,
// but for this.
var retryLater = regexp.MustCompile(`(?i)"retryDelay"|retry in \d`)

// IsRetryable reports whether the same request may succeed a little later: the reply failed, not for the length of the
// conversation, and not for want of money. contextWindow is as for [IsContextOverflow].
func IsRetryable(m *schemas.AssistantMessage, contextWindow int64) bool {
	text := m.ErrorMessage
	if m.StopReason != schemas.StopError || text == "" || IsContextOverflow(m, contextWindow) {
		return false
	}
	return retryableTexts.MatchString(text) && (!quotaTexts.MatchString(text) || retryLater.MatchString(text))
}
