package openaicompletions_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/vendortest"
	"github.com/loopbus/loopbus/providers/openaicompletions"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const reply = `data: {"id":"c1","choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}` +
	"\n\ndata: [DONE]\n\n"

// ask returns the requests that were sent for a request, and the reply.
func ask(t *testing.T, change func(*providers.Request)) ([]vendortest.Sent, *schemas.AssistantMessage) {
	t.Helper()
	vendor := vendortest.Serve(t, "text/event-stream", []byte(reply))
	req := &providers.Request{
		Model: &providers.Model{
			ID: "m", API: openaicompletions.API, Provider: "vendor", BaseURL: vendor.URL + "/v1", Reasoning: true,
			MaxTokens: 1000,
		},
		Messages: schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "Go."}}}},
		APIKey:   "the-key-of-the-request", HTTP: vendortest.Client(t),
	}
	change(req)
	m := vendortest.Final(t, t.Context(), openaicompletions.Stream, req)
	return vendor.Sent(), m
}

func TestTheEnvironmentIsNotRead(t *testing.T) {
	for name, value := range map[string]string{
		"OPENAI_BASE_URL": "http://127.0.0.1:1", "OPENAI_API_KEY": "another", "OPENAI_ADMIN_KEY": "another",
		"OPENAI_ORG_ID":     "org",
		"OPENAI_PROJECT_ID": "project", "OPENAI_CUSTOM_HEADERS": "X-Custom: yes",
	} {
		t.Setenv(name, value)
	}
	sent, m := ask(t, func(*providers.Request) {})
	if m.StopReason != schemas.StopStop || len(sent) != 1 {
		t.Fatalf("%s %q, %d requests", m.StopReason, m.ErrorMessage, len(sent))
	}
	if got := sent[0].Header.Get("Authorization"); got != "Bearer the-key-of-the-request" {
		t.Errorf("authorization %q", got)
	}
	for _, name := range []string{"OpenAI-Organization", "OpenAI-Project", "X-Custom"} {
		if got := sent[0].Header.Get(name); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestUnsupportedThinkingOffIsNotSent tests levels that are null in the catalogue. The patches of recorded cases cannot
// express a null.
func TestUnsupportedThinkingOffIsNotSent(t *testing.T) {
	for name, tc := range map[string]struct {
		provider string
		levels   map[schemas.ThinkingLevel]*string
	}{
		"thinking cannot be switched off, OpenAI": {"openai",
			map[schemas.ThinkingLevel]*string{schemas.ThinkingOff: nil}},
		"thinking cannot be switched off, OpenRouter": {"openrouter",
			map[schemas.ThinkingLevel]*string{schemas.ThinkingOff: nil}},
	} {
		t.Run(name, func(t *testing.T) {
			sent, _ := ask(t, func(req *providers.Request) {
				req.Model.Provider, req.Model.ThinkingLevels = tc.provider,
					tc.levels
			})
			var body map[string]any
			if err := json.Unmarshal(sent[0].Body, &body); err != nil {
				t.Fatal(err)
			}
			for _, member := range []string{"reasoning", "reasoning_effort"} {
				if got, ok := body[member]; ok {
					t.Errorf("%s: %v", member, got)
				}
			}
		})
	}
}

func TestInvalidRequestIsAnError(t *testing.T) {
	for name, change := range map[string]func(*providers.Request){
		"no API key":      func(req *providers.Request) { req.APIKey = "" },
		"compat of model": func(req *providers.Request) { req.Model.Compat = json.RawMessage(`{"supportsStore":1}`) },
		"options for": func(req *providers.Request) {
			req.Direct, req.Vendor = true,
				json.RawMessage(`{"reasoningEffort":1}`)
		},
		"json":             func(req *providers.Request) { req.ToolChoice = json.RawMessage(`{`) },
		"parse":            func(req *providers.Request) { req.Model.BaseURL = "http://[" },
		"connection error": func(req *providers.Request) { req.Model.BaseURL = "ftp://127.0.0.1:1" },
	} {
		t.Run(name, func(t *testing.T) {
			sent, m := ask(t, func(req *providers.Request) {
				change(req)
			})
			if m.StopReason != schemas.StopError || !strings.Contains(strings.ToLower(m.ErrorMessage), strings.ToLower(name)) ||
				len(sent) > 0 {
				t.Errorf("%s %q, %d requests", m.StopReason, m.ErrorMessage, len(sent))
			}
		})
	}
}
