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
// one would do, the same one again would not. contextWindow is the model's, in tokens; 0 if unknown. With it, replies
// of vendors that cut silently are found too: one that read more than fits, and one with no room left for a word.
func IsContextOverflow(m *schemas.AssistantMessage, contextWindow int64) bool {
	read := m.Usage.Input + m.Usage.CacheRead
	switch m.StopReason {
	case schemas.StopError:
		return IsOverflow(m.ErrorMessage)
	case schemas.StopStop:
		return contextWindow > 0 && read > contextWindow
	case schemas.StopLength:
		return contextWindow > 0 && m.Usage.Output == 0 && float64(read) >= 0.99*float64(contextWindow)
	}
	return false
}

// textCodes are how vendors and proxies say what went wrong, where they say it in words only. The first that matches
// counts.
var textCodes = []struct {
	code schemas.FailureCode
	text *regexp.Regexp
}{
	{schemas.FailureRateLimited, regexp.MustCompile(`(?i)rate.?limit|too many requests|\b429\b|retry delay`)},
	{schemas.FailureOverloaded, regexp.MustCompile(`(?i)overloaded|\b503\b|service.?unavailable`)},
	{schemas.FailureTimeout, regexp.MustCompile(`(?i)timed? out|timeout|\b504\b`)},
	{schemas.FailureConnection, regexp.MustCompile(`(?i)connection.?error|connection.?refused|connection.?lost` +
		`|network.?error|websocket.?closed|websocket.?error|other side closed|fetch failed|upstream.?connect` +
		`|reset before headers|socket hang up|ended without|stream ended before|http2 request did not get a ` +
		`response|terminated`)},
	{schemas.FailureServerError, regexp.MustCompile(`(?i)server.?error|internal.?error|provider.?returned.?error` +
		`|\b50[02]\b`)},
}

// quotaTexts say that somebody has to pay first.
var quotaTexts = regexp.MustCompile(`(?i)insufficient_quota|quota exceeded|exceeded your (?:monthly ` +
	`)?(?:usage|spend)|billing|out of budget` +
	`|GoUsageLimitError|"?code"?\s*:?\s*"?1308\b`)

// retryLater says when to ask again: what mentions money besides comes back by itself. Google's words for a rate per
// minute are those for an unpaid bill but for this, and OpenAI's tell where to pay for a higher rate.
var retryLater = regexp.MustCompile(`(?i)"retryDelay"|(?:retry|try again) (?:in|after) \d`)

// IsQuota reports whether a vendor's words say that somebody has to pay first, and not when to ask again.
func IsQuota(text string) bool {
	return quotaTexts.MatchString(text) && !retryLater.MatchString(text)
}

// IsOverflow reports whether a vendor's words say that a prompt does not fit.
func IsOverflow(text string) bool {
	return overflowTexts.MatchString(text) && !notOverflowTexts.MatchString(text)
}

// FailureOfText returns what kind of failure a vendor's words are about. It is for failures of which nothing is known
// but these words: neither a status nor a code of the vendor's.
func FailureOfText(text string) schemas.FailureCode {
	switch {
	case IsOverflow(text):
		return schemas.FailureContextOverflow
	case IsQuota(text):
		return schemas.FailureQuota
	}
	for _, c := range textCodes {
		if c.text.MatchString(text) {
			return c.code
		}
	}
	return schemas.FailureUnknown
}

// IsRetryable reports whether the same request may succeed a little later, of a reply whose API gave no
// [schemas.FailureCode]: by the words of its error alone. contextWindow is as for [IsContextOverflow].
func IsRetryable(m *schemas.AssistantMessage, contextWindow int64) bool {
	return m.StopReason == schemas.StopError && !IsContextOverflow(m, contextWindow) &&
		FailureOfText(m.ErrorMessage).Retryable()
}
