package providers_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// wireReplies holds replies in the form of each API's vendor: one of text and one of a tool call, with any number of
// deltas.
var wireReplies = map[string]wireReply{
	"anthropic-messages": {
		text: eventStream(
			`event: message_start`+"\n"+`data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":3,`+
				`"output_tokens":1}}}`,
			`event: content_block_start`+"\n"+`data: {"type":"content_block_start","index":0,`+
				`"content_block":{"type":"text","text":""}}`,
			`event: content_block_delta`+"\n"+`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",`+
				`"text":"§"}}`,
			`event: content_block_stop`+"\n"+`data: {"type":"content_block_stop","index":0}`,
			`event: message_delta`+"\n"+`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},`+
				`"usage":{"output_tokens":9}}`,
			`event: message_stop`+"\n"+`data: {"type":"message_stop"}`,
		),
		call: eventStream(
			`event: message_start`+"\n"+`data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":3,`+
				`"output_tokens":1}}}`,
			`event: content_block_start`+"\n"+`data: {"type":"content_block_start","index":0,`+
				`"content_block":{"type":"tool_use","id":"toolu_1","name":"bash","input":{}}}`,
			`event: content_block_delta`+"\n"+`data: {"type":"content_block_delta","index":0,`+
				`"delta":{"type":"input_json_delta","partial_json":"§"}}`,
			`event: content_block_stop`+"\n"+`data: {"type":"content_block_stop","index":0}`,
			`event: message_delta`+"\n"+`data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},`+
				`"usage":{"output_tokens":9}}`,
			`event: message_stop`+"\n"+`data: {"type":"message_stop"}`,
		),
	},
	"bedrock-converse-stream": {
		text: frameStream(
			wireFrame{"messageStart", `{"role":"assistant"}`},
			wireFrame{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"§"}}`},
			wireFrame{"contentBlockStop", `{"contentBlockIndex":0}`},
			wireFrame{"messageStop", `{"stopReason":"end_turn"}`},
			wireFrame{"metadata", `{"usage":{"inputTokens":3,"outputTokens":9,"totalTokens":12}}`},
		),
		call: frameStream(
			wireFrame{"messageStart", `{"role":"assistant"}`},
			wireFrame{"contentBlockStart",
				`{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"tooluse_1","name":"bash"}}}`},
			wireFrame{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"§"}}}`},
			wireFrame{"contentBlockStop", `{"contentBlockIndex":0}`},
			wireFrame{"messageStop", `{"stopReason":"tool_use"}`},
			wireFrame{"metadata", `{"usage":{"inputTokens":3,"outputTokens":9,"totalTokens":12}}`},
		),
		contentType: "application/vnd.amazon.eventstream",
	},
	"azure-openai-responses": responsesReply,
	"google-generative-ai":   geminiReply,
	"google-vertex":          geminiReply,
	"openai-responses":       responsesReply,
	"mistral-conversations": {
		text: eventStream(
			`data: {"id":"c1","choices":[{"index":0,"delta":{"content":"§"},"finish_reason":null}]}`,
			`data: {"id":"c1","choices":[{"index":0,"delta":{"content":null},"finish_reason":"stop"}],`+
				`"usage":{"prompt_tokens":3,"completion_tokens":9}}`,
			`data: [DONE]`,
		),
		call: eventStream(
			`data: {"id":"c1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"D681PevKs",`+
				`"function":{"name":"bash","arguments":"§"}}]}}]}`,
			`data: {"id":"c1","choices":[{"index":0,"delta":{"content":null},"finish_reason":"tool_calls"}]}`,
			`data: [DONE]`,
		),
	},
	"openai-completions": {
		text: eventStream(
			`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"§"},"finish_reason":null}]}`,
			`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`data: {"id":"c1","model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}`,
			`data: [DONE]`,
		),
		call: eventStream(
			`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1",`+
				`"function":{"name":"bash","arguments":"§"}}]}}]}`,
			`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			`data: [DONE]`,
		),
	},
}

var responsesReply = wireReply{
	text: eventStream(
		`data: {"type":"response.created","response":{"id":"r1"}}`,
		`data: {"type":"response.output_item.added","output_index":0,"item":{"id":"m1","type":"message"}}`,
		`data: {"type":"response.content_part.added","output_index":0,"part":{"type":"output_text","text":""}}`,
		`data: {"type":"response.output_text.delta","output_index":0,"delta":"§"}`,
		`data: {"type":"response.output_item.done","output_index":0,"item":{"id":"m1","type":"message","content":[]}}`,
		`data: {"type":"response.completed","response":{"id":"r1","status":"completed","usage":{"input_tokens":3,`+
			`"output_tokens":9}}}`,
	),
	call: eventStream(
		`data: {"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call",`+
			`"call_id":"call_1","name":"bash"}}`,
		`data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"§"}`,
		`data: {"type":"response.output_item.done","output_index":0,"item":{"id":"fc_1","type":"function_call",`+
			`"call_id":"call_1","name":"bash"}}`,
		`data: {"type":"response.completed","response":{"id":"r1","status":"completed"}}`,
	),
}

// geminiReply has one call for each delta, because Gemini sends a call in one piece.
var geminiReply = wireReply{
	text: eventStream(
		`data: {"candidates":[{"content":{"parts":[{"text":"§"}]}}],"responseId":"r1"}`,
		`data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":9}}`,
	),
	call: eventStream(
		`data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"bash","args":{"a":"§"}}}]}}],"responseId":"r1"}`,
		`data: {"candidates":[{"finishReason":"STOP"}]}`,
	),
}

// A wireReply is the entry of [wireReplies] for an API.
type wireReply struct {
	text, call  func(deltas int) []byte
	contentType string                   // empty for text/event-stream
	prepare     func(*providers.Request) // sets what requests of the API require; may be nil
}

// eventStream returns replies of server-sent events. The event with a § is the delta: it is repeated for each delta,
// and its text, or a piece of the arguments {"a":"words words …"}, replaces the §.
func eventStream(events ...string) func(deltas int) []byte {
	at := slices.IndexFunc(events, func(e string) bool { return strings.Contains(e, "§") })
	isCall := strings.Contains(events[at], "arguments") || strings.Contains(events[at], "partial_json")
	return func(deltas int) []byte {
		var b strings.Builder
		for i, event := range events {
			if i != at {
				b.WriteString(event + "\n\n")
				continue
			}
			for n := range deltas {
				b.WriteString(strings.Replace(event, "§", wirePiece(n, deltas, isCall), 1) + "\n\n")
			}
		}
		return []byte(b.String())
	}
}

// wirePiece returns the nth delta in the form of a JSON string's content.
func wirePiece(n, deltas int, isCall bool) string {
	piece := "words "
	if isCall && n == 0 {
		piece = `{\"a\":\"` + piece
	}
	if isCall && n == deltas-1 {
		piece += `\"}`
	}
	return piece
}

// wireRequest returns a request to the API and a server of wireReplies.
func wireRequest(api, url string, client *http.Client) *providers.Request {
	req := &providers.Request{
		Model: &providers.Model{
			ID: "m", API: api, Provider: "test", BaseURL: url, Input: []string{providers.InputText}, ContextWindow: 1e6,
			MaxTokens: 1e5,
		},
		Messages: schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "Go."}}}},
		APIKey:   "a-key-for-tests",
		Limits:   providers.Limits{Calls: -1}, // Google sends a call in one piece, so many deltas are many calls
		HTTP:     client,
		Now:      func() time.Time { return time.UnixMilli(1_700_000_000_000) },
	}
	if prepare := wireReplies[api].prepare; prepare != nil {
		prepare(req)
	}
	return req
}

// served lists the ids of the APIs that have a package.
func served() []string { return slices.Sorted(maps.Keys(apis)) }

func TestEveryAPIHasWireReplies(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		if r := wireReplies[api]; r.text == nil || r.call == nil {
			t.Errorf("%s is neither measured nor fuzzed: it has no wireReplies", api)
		}
	}
}
