package providers_test

import (
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
