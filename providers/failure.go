package providers

import (
	"regexp"

	"github.com/loopbus/loopbus/schemas"
)

// overflowTexts matches the texts of vendors for a prompt that exceeds the context.
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

// notOverflowTexts matches texts about the rate of requests, which overflowTexts may match too.
var notOverflowTexts = regexp.MustCompile(`(?i)^(?:Throttling error|Service unavailable):|rate limit|too many requests`)

// IsContextOverflow reports whether the reply says that the conversation exceeds the model's context: a shorter one
// would succeed, a retry would not. contextWindow is the model's window in tokens, 0 if unknown. If it is known,
// IsContextOverflow also detects vendors that truncate silently: a reply that read more than fits, or one that had no
// room for output.
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

// textCodes classifies error texts of vendors and proxies. The first that matches counts.
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

// quotaTexts matches texts about a quota or a bill.
var quotaTexts = regexp.MustCompile(`(?i)insufficient_quota|quota exceeded|exceeded your (?:monthly ` +
	`)?(?:usage|spend)|billing|out of budget` +
	`|GoUsageLimitError|"?code"?\s*:?\s*"?1308\b`)

// retryLater matches texts that tell when to retry. Such a failure ends by itself, even if its text mentions payment:
// Google's text for a rate per minute is otherwise that for an unpaid bill, and OpenAI's tells where to pay for a
// higher rate.
var retryLater = regexp.MustCompile(`(?i)"retryDelay"|(?:retry|try again) (?:in|after) \d`)

// maxSearched is how many bytes of a text are searched for known phrases. That takes about a microsecond a byte, and
// nothing can interrupt it: a model server could keep a core busy for a minute with one error message of 16 MiB.
const maxSearched = 16 << 10

func searched(text string) string { return text[:min(len(text), maxSearched)] }

// IsQuota reports whether a vendor's text says that payment is needed, rather than when to retry.
func IsQuota(text string) bool {
	text = searched(text)
	return quotaTexts.MatchString(text) && !retryLater.MatchString(text)
}

// IsOverflow reports whether a vendor's text says that a prompt is too long.
func IsOverflow(text string) bool {
	text = searched(text)
	return overflowTexts.MatchString(text) && !notOverflowTexts.MatchString(text)
}

// FailureOfText classifies a failure by a vendor's text alone. Use it only if neither a status nor a code is known.
func FailureOfText(text string) schemas.FailureCode {
	text = searched(text)
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

// IsRetryable reports whether a retry may succeed, for a reply whose API gave no [schemas.FailureCode]: it judges by
// the error text alone. contextWindow is as for [IsContextOverflow].
func IsRetryable(m *schemas.AssistantMessage, contextWindow int64) bool {
	return m.StopReason == schemas.StopError && !IsContextOverflow(m, contextWindow) &&
		FailureOfText(m.ErrorMessage).Retryable()
}
