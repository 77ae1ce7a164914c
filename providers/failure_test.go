package providers_test

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

func TestIsRetryable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`529 {"error":{"type":"overloaded_error","message":"Overloaded"}}`: true,
		"429 slow down": true,
		"connection error: dial tcp: connection refused": true,
		"terminated: response broke off: unexpected EOF": true,
		"request timed out: no response within 10s":      true,
		"stream ended before response.completed":         true,
		"Anthropic stream ended before message_stop":     true,
		"401 invalid x-api-key":                          false,
		"":                                               false,
		"you used 42900 tokens in request 5003":          false,
		"429 You exceeded your current quota, please check your plan and billing details.":                         false,
		`429 {"error":{"code":"insufficient_quota"}}`:                                                              false,
		`429 {"error":{"code":"1308","message":"used up"}}`:                                                        false,
		`{"error":{"code":429,"message":"check your plan and billing details.","details":[{"retryDelay":"12s"}]}}`: true,
		"429 Rate limit reached. Please try again in 6s. " +
			"Add a payment method at https://platform.openai.com/account/billing.": true,
		"500 prompt is too long": false,
		"Throttling error: Too many tokens, please wait before trying again.": false,
		"panic in wire: boom": false,
	} {
		m := &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: text}
		if got := providers.IsRetryable(m, 1000); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if m := (&schemas.AssistantMessage{StopReason: schemas.StopAborted, ErrorMessage: "timeout"}); providers.IsRetryable(m,
		0) {
		t.Error("an aborted reply is retryable")
	}
}

// TestLongTextsAreSearchedInPart: a model server may send an error message of 16 MiB, which takes a minute of a core to
// search. What it says is in its first sentences.
func TestLongTextsAreSearchedInPart(t *testing.T) {
	t.Parallel()
	far := strings.Repeat("x ", 1<<19)
	for _, text := range []string{"rate limit", "prompt is too long", "insufficient_quota"} {
		if code := providers.FailureOfText(far + text); code != schemas.FailureUnknown {
			t.Errorf("%q at the end of a MiB is found: %s", text, code)
		}
		if code := providers.FailureOfText(text + " " + far); code == schemas.FailureUnknown {
			t.Errorf("%q at the beginning of a MiB is not found", text)
		}
	}
	reply := &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: far + "rate limit"}
	if providers.IsRetryable(reply, 0) || providers.IsContextOverflow(reply, 0) || providers.IsQuota(far+"billing") ||
		providers.IsOverflow(far+"too many tokens") {
		t.Error("the end of a long text is searched")
	}
}
