package providers_test

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// unknownReason is a finish reason that no package knows.
const unknownReason = "solar_flare"

// responsesEnd is a response that ends with a status.
func responsesEnd(event, status string) []byte {
	return sseBody(
		`data: {"type":"response.created","response":{"id":"r1"}}`,
		`data: {"type":"response.output_item.added","output_index":0,"item":{"id":"m1","type":"message"}}`,
		`data: {"type":"response.content_part.added","output_index":0,"part":{"type":"output_text","text":""}}`,
		`data: {"type":"response.output_text.delta","output_index":0,"delta":"half"}`,
		`data: {"type":"`+event+`","response":{"id":"r1","status":"`+status+`","usage":{"input_tokens":3,`+
			`"output_tokens":9,"total_tokens":12}}}`)
}

func chatEnd(after ...string) []byte {
	return sseBody(append(append([]string{
		`data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"half"}}]}`,
	}, after...), `data: [DONE]`)...)
}

var (
	chatReason = `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"` + unknownReason + `"}]`
	chatUsage  = `"usage":{"prompt_tokens":3,"completion_tokens":9,"total_tokens":12}}`
	chatUnsure = map[string][]byte{
		"usage with it":   chatEnd(chatReason + "," + chatUsage),
		"usage after it":  chatEnd(chatReason+"}", `data: {"id":"c1","model":"m","choices":[],`+chatUsage),
		"usage before it": chatEnd(`data: {"id":"c1","model":"m","choices":[],`+chatUsage, chatReason+"}"),
		"a known one then": chatEnd(chatReason+"}", `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},`+
			`"finish_reason":"stop"}],`+chatUsage),
	}
	responsesUnsure = map[string][]byte{
		"a status": responsesEnd("response.completed", unknownReason),
	}
	geminiUnsure = map[string][]byte{
		"usage with it": sseBody(
			`data: {"candidates":[{"content":{"parts":[{"text":"half"}]}}],"responseId":"r1"}`,
			`data: {"candidates":[{"finishReason":"`+unknownReason+`"}],"usageMetadata":{"promptTokenCount":3,`+
				`"candidatesTokenCount":9,"totalTokenCount":12}}`),
		"behind a call": sseBody(
			`data: {"candidates":[{"content":{"parts":[{"text":"half"},{"functionCall":{"name":"ls","args":{}}}]}}],`+
				`"responseId":"r1"}`,
			`data: {"candidates":[{"finishReason":"`+unknownReason+`"}],"usageMetadata":{"promptTokenCount":3,`+
				`"candidatesTokenCount":9,"totalTokenCount":12}}`),
	}
)

// unknownEnds lists replies with the text "half" and an unknown finish reason, by API and form.
var unknownEnds = map[string]map[string][]byte{
	"openai-completions":     chatUnsure,
	"mistral-conversations":  chatUnsure,
	"openai-responses":       responsesUnsure,
	"azure-openai-responses": responsesUnsure,
	"google-generative-ai":   geminiUnsure,
	"google-vertex":          geminiUnsure,
	"anthropic-messages": {
		"usage before it": sseBody(
			"event: message_start\n"+`data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":3,`+
				`"output_tokens":9}}}`,
			"event: content_block_start\n"+`data: {"type":"content_block_start","index":0,"content_block":{"type":"text",`+
				`"text":"half"}}`,
			"event: content_block_stop\n"+`data: {"type":"content_block_stop","index":0}`,
			"event: message_delta\n"+`data: {"type":"message_delta","delta":{"stop_reason":"`+unknownReason+`"}}`,
			"event: message_stop\n"+`data: {"type":"message_stop"}`),
	},
	"bedrock-converse-stream": {
		"usage after it": frameBody(
			wireFrame{"messageStart", `{"role":"assistant"}`},
			wireFrame{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"half"}}`},
			wireFrame{"contentBlockStop", `{"contentBlockIndex":0}`},
			wireFrame{"messageStop", `{"stopReason":"` + unknownReason + `"}`},
			wireFrame{"metadata", `{"usage":{"inputTokens":3,"outputTokens":9,"totalTokens":12}}`}),
	},
}

// TestUnknownFinishReasons checks that an unknown finish reason is an error that names it, and that the reply keeps its
// content and usage.
func TestUnknownFinishReasons(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		if len(unknownEnds[api]) == 0 {
			t.Errorf("%s has no reply that ends strangely", api)
		}
		for name, body := range unknownEnds[api] {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				events := replied(t, api, body)
				m := events[len(events)-1].Message
				if m.StopReason != schemas.StopError || !strings.Contains(m.ErrorMessage, unknownReason) {
					t.Errorf("%s %q, want an error that names %s", m.StopReason, m.ErrorMessage, unknownReason)
				}
				if m.Content.JoinText() != "half" || m.Usage.Input != 3 || m.Usage.Output != 9 || m.Usage.TotalTokens != 12 {
					t.Errorf("content %q, usage %+v", m.Content.JoinText(), m.Usage)
				}
			})
		}
	}
}
