package anthropicmessages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/anthropicmessages"
	"github.com/loopbus/loopbus/providers/internal/vendortest"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const reply = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1"}}` + "\n\n" +
	"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"

// ask returns what a request was sent as, and what came of it.
func ask(t *testing.T, change func(*providers.Request)) (vendortest.Sent, *schemas.AssistantMessage) {
	t.Helper()
	vendor := vendortest.Serve(t, "text/event-stream", []byte(reply))
	req := &providers.Request{
		Model: &providers.Model{ID: "claude-opus-4-6", API: "anthropic-messages", Provider: "anthropic",
			BaseURL: vendor.URL, MaxTokens: 1000},
		Messages: schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "Go."}}}},
		APIKey:   "the-key-of-the-request", HTTP: vendortest.Client(t),
	}
	change(req)
	m := vendortest.Final(t, t.Context(), anthropicmessages.Stream, req)
	if sent := vendor.Sent(); len(sent) == 1 {
		return sent[0], m
	}
	return vendortest.Sent{}, m
}

func TestTheEnvironmentIsNotRead(t *testing.T) {
	for name, value := range map[string]string{
		"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_API_KEY": "another", "ANTHROPIC_AUTH_TOKEN": "another",
		"ANTHROPIC_PROFILE": "none", "ANTHROPIC_CUSTOM_HEADERS": "X-Custom: yes",
	} {
		t.Setenv(name, value)
	}
	sent, m := ask(t, func(*providers.Request) {})
	if m.StopReason != schemas.StopStop || sent.Header.Get("X-Api-Key") != "the-key-of-the-request" {
		t.Errorf("%s %q, headers %v", m.StopReason, m.ErrorMessage, sent.Header)
	}
	for _, name := range []string{"Authorization", "X-Custom"} {
		if got := sent.Header.Get(name); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Whatever was bought from another vendor, or signed in with, the client says what it is.
func TestNobodyElseIsImpersonated(t *testing.T) {
	sent, _ := ask(t, func(req *providers.Request) { req.APIKey = "sk-ant-oat01-a-token-of-a-subscription" })
	for name, values := range sent.Header {
		if strings.Contains(strings.ToLower(name+strings.Join(values, " ")), "claude-c") {
			t.Errorf("%s: %q", name, values)
		}
	}
	if strings.Contains(string(sent.Body), `"system"`) {
		t.Errorf("a system prompt that nobody asked for: %s", sent.Body)
	}
}

func TestJSONIsSentAsItIs(t *testing.T) {
	const arguments = `{"z":1,"a":12345678901234567890,"é":"\ud83d","b":{"y":1.0}}`
	const properties = `{"z":{"type":"string"},"a":{"maximum":12345678901234567890}}`
	sent, m := ask(t, func(req *providers.Request) {
		req.Tools = []schemas.ToolDefinition{{Name: "t", Parameters: json.RawMessage(`{"properties":` + properties + `}`)}}
		req.Messages = append(req.Messages, &schemas.AssistantMessage{
			Content: schemas.Contents{schemas.ToolCall{ID: "c", Name: "t", Arguments: json.RawMessage(arguments)}},
		})
	})
	for _, want := range []string{arguments, properties} {
		if !strings.Contains(string(sent.Body), want) {
			t.Errorf("%s is not in %s, %s", want, sent.Body, m.ErrorMessage)
		}
	}
}

// TestWhoAlwaysThinksIsNotToldNotTo has the vendor's newest kind of model: "disabled" is an error there.
func TestWhoAlwaysThinksIsNotToldNotTo(t *testing.T) {
	for name, c := range map[string]struct {
		levels map[schemas.ThinkingLevel]*string
		level  schemas.ThinkingLevel
		want   string
	}{
		"can be off":    {nil, schemas.ThinkingOff, `"thinking":{"type":"disabled"}`},
		"cannot be off": {map[schemas.ThinkingLevel]*string{schemas.ThinkingOff: nil}, schemas.ThinkingOff, ""},
		"is asked to think": {map[schemas.ThinkingLevel]*string{schemas.ThinkingOff: nil}, schemas.ThinkingLow,
			`"type":"adaptive"`},
	} {
		sent, _ := ask(t, func(req *providers.Request) {
			warm := 0.7
			req.Model.Reasoning, req.Model.ThinkingLevels, req.Reasoning, req.Temperature = true, c.levels, c.level, &warm
		})
		if got := string(sent.Body); c.want == "" && strings.Contains(got, `"thinking"`) || !strings.Contains(got, c.want) ||
			got == "" {
			t.Errorf("a model that %s is sent %s", name, got)
		}
		if got := strings.Contains(string(sent.Body), `"temperature"`); got != (c.levels == nil) {
			t.Errorf("a model that %s is sent a temperature: %v", name, got)
		}
	}
}

func TestMistakesOfTheCallerAreErrors(t *testing.T) {
	for name, change := range map[string]func(*providers.Request){
		"compat":      func(req *providers.Request) { req.Model.Compat = json.RawMessage(`[]`) },
		"options":     func(req *providers.Request) { req.Vendor = json.RawMessage(`{"effort":1}`) },
		"tool choice": func(req *providers.Request) { req.ToolChoice = json.RawMessage(`{"type":`) },
		"parameters of tool t": func(req *providers.Request) {
			req.Tools = []schemas.ToolDefinition{{Name: "t", Parameters: json.RawMessage(`{"required":"a"}`)}}
		},
	} {
		sent, m := ask(t, change)
		if m.StopReason != schemas.StopError || !strings.Contains(m.ErrorMessage, name) || sent.Body != nil {
			t.Errorf("%s: %s %q, sent %q", name, m.StopReason, m.ErrorMessage, sent.Body)
		}
	}
}
