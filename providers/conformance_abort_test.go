package providers_test

import (
	"path/filepath"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// plainCases holds a recorded reply of text for each API.
var plainCases = map[string]string{"google-vertex": "text-plain-api-key"}

func plainCase(t *testing.T, api string) []byte {
	name := plainCases[api]
	if name == "" {
		name = "text-plain"
	}
	return readFile(t, filepath.Join(conformanceFolder, api, name+".json"))
}

// aborted is the outcome of a reply that was cancelled before it began.
func aborted(requests int) object {
	zero := object{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
	usage := object{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": zero}
	return object{
		"requestCount": requests, "responseStatuses": []any{},
		"events": []any{object{"type": "error", "reason": "aborted"}},
		"message": object{
			"content": []any{}, "stopReason": schemas.StopAborted, "errorMessage": "Request was aborted", "usage": usage,
			"responseId": nil, "responseModel": nil,
		},
	}
}

// slowDown is a response that requests a retry after a minute.
var slowDown = object{
	"status": 429, "headers": object{"retry-after-ms": "50000", "x-amzn-errortype": "ThrottlingException"},
	"json": object{"error": object{"message": "rate limit"}},
}

// TestAborts plays every kind of abort with every API.
func TestAborts(t *testing.T) {
	t.Parallel()
	retries := []string{"anthropic-messages", "openai-completions", "openai-responses", "azure-openai-responses",
		"bedrock-converse-stream"}
	for _, api := range served() {
		before := aborted(0)
		before["request"] = nil
		kinds := map[string]object{
			"before the call": {"abort": object{"when": abortBeforeCall}, "expected": before},
			"while the headers are held": {
				"abort": object{"when": abortHoldHeaders}, "expected": aborted(1),
				"http": object{"replies": []any{object{"holdHeaders": true}}},
			},
			"after the reply": {"abort": object{"when": abortAfterReply}},
		}
		for _, retried := range retries {
			if api == retried {
				kinds["before another attempt"] = object{
					"abort": object{"when": abortAfterReply}, "expected": aborted(1), "http": object{"replies": []any{slowDown}},
				}
			}
		}
		for name, patch := range kinds {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				for _, problem := range play(t, patched(t, plainCase(t, api), nil, patch), apis[api], nil) {
					t.Error(problem)
				}
			})
		}
	}
}

// TestUnknownAbortsAreRefused checks that no case passes because its abort is not performed.
func TestUnknownAbortsAreRefused(t *testing.T) {
	t.Parallel()
	raw := patched(t, plainCase(t, "openai-completions"), nil, object{"abort": object{"when": "atTea"}})
	if _, err := parseRecording(raw, ""); err == nil {
		t.Error("a kind of abort that nobody knows was taken")
	}
}
