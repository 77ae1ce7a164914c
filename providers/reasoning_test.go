package providers_test

import (
	"cmp"
	"net/http"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// replied returns the events of a reply with this body.
func replied(t *testing.T, api string, body []byte, change ...func(*providers.Request)) []schemas.StreamEvent {
	t.Helper()
	req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", cmp.Or(wireReplies[api].contentType, "text/event-stream"))
		_, _ = w.Write(body)
	})
	for _, f := range change {
		f(req)
	}
	var events []schemas.StreamEvent
	for e, err := range apis[api](t.Context(), req) {
		if err != nil {
			t.Fatalf("the iterator yielded the error %v", err)
		}
		events = append(events, e)
	}
	checkWellFormed(t, events)
	return events
}

// sseBody joins events of a stream.
func sseBody(events ...string) []byte { return []byte(strings.Join(events, "\n\n") + "\n\n") }

// frameBody joins frames of a Bedrock stream.
func frameBody(list ...wireFrame) []byte { return frameStream(list...)(1) }

// responsesThinking returns a response that streams its reasoning item with these events and ends it with item.
func responsesThinking(item string, events ...string) []byte {
	all := append([]string{
		`data: {"type":"response.created","response":{"id":"r1"}}`,
		`data: {"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning"}}`,
	}, events...)
	return sseBody(append(all,
		`data: {"type":"response.output_item.done","output_index":0,"item":`+item+`}`,
		`data: {"type":"response.output_item.added","output_index":1,"item":{"id":"m1","type":"message"}}`,
		`data: {"type":"response.output_item.done","output_index":1,"item":{"id":"m1","type":"message",`+
			`"content":[{"type":"output_text","text":"So."}]}}`,
		`data: {"type":"response.completed","response":{"id":"r1","status":"completed"}}`)...)
}

// chatThinking returns a reply of chunks with these deltas and then a text.
func chatThinking(deltas ...string) []byte {
	var events []string
	for _, d := range append(deltas, `{"content":"So."}`) {
		events = append(events, `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":`+d+`}]}`)
	}
	return sseBody(append(events, `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},`+
		`"finish_reason":"stop"}]}`,
		`data: [DONE]`)...)
}

func geminiThinking(parts ...string) []byte {
	var events []string
	for _, p := range append(parts, `{"text":"So."}`) {
		events = append(events, `data: {"candidates":[{"content":{"parts":[`+p+`]}}],"responseId":"r1"}`)
	}
	return sseBody(append(events, `data: {"candidates":[{"finishReason":"STOP"}]}`)...)
}

const (
	reasoningDelta = `data: {"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":`
	reasoningDone  = `data: {"type":"response.reasoning_text.done","output_index":0,"content_index":0,"text":"one two"}`
	bareItem       = `{"id":"rs_1","type":"reasoning"}`
	wholeItem      = `{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"one two"}]}`
)

var responsesReasoning = map[string][]byte{
	"reasoning text": responsesThinking(wholeItem, reasoningDelta+`"one "}`,
		reasoningDelta+`"two"}`,
		reasoningDone),
	"without the whole": responsesThinking(bareItem, reasoningDelta+`"one "}`,
		reasoningDelta+`"two"}`,
		reasoningDone),
	"without its done":     responsesThinking(bareItem, reasoningDelta+`"one "}`, reasoningDelta+`"two"}`),
	"a done with the rest": responsesThinking(bareItem, reasoningDelta+`"one "}`, reasoningDone),
	"a part that is said so": responsesThinking(wholeItem, `data: {"type":"response.content_part.added",`+
		`"output_index":0,"part":{"type":"reasoning_text","text":""}}`,
		reasoningDelta+`"one "}`,
		reasoningDelta+`"two"}`,
		reasoningDone),
	"a summary": responsesThinking(
		`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"one two"}]}`,
		`data: {"type":"response.reasoning_summary_part.added","output_index":0,"part":{"type":"summary_text","text":""}}`,
		`data: {"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"one "}`,
		`data: {"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"two"}`),
}

// plainReasoning lists replies with the thinking "one two" in plain text and then the text "So.", by API and form.
var plainReasoning = map[string]map[string][]byte{
	"openai-responses":       responsesReasoning,
	"azure-openai-responses": responsesReasoning,
	"openai-completions": {
		"reasoning_content": chatThinking(`{"reasoning_content":"one "}`, `{"reasoning_content":"two"}`),
		"reasoning":         chatThinking(`{"reasoning":"one "}`, `{"reasoning":"two","content":null}`),
		"reasoning_text":    chatThinking(`{"reasoning_text":"one "}`, `{"reasoning_text":"two"}`),
		"two of them alike": chatThinking(
			`{"reasoning_content":"one ","reasoning":"one "}`,
			`{"reasoning_content":"two","reasoning":"two"}`),
		"details beside the text": chatThinking(
			`{"reasoning":"one ","reasoning_details":[{"type":"reasoning.text","text":"one "}]}`,
			`{"reasoning":"two","reasoning_details":[{"type":"reasoning.text","text":"two"}]}`),
		"parts of the content": chatThinking(
			`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"one "}]}]}`,
			`{"content":[{"type":"thinking","thinking":"two"}]}`),
	},
	"mistral-conversations": {
		"thinking parts": chatThinking(
			`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"one "}]}]}`,
			`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"two"}]}]}`),
		"parts of plain text": chatThinking(
			`{"content":[{"type":"thinking","thinking":"one "}]}`,
			`{"content":[{"type":"thinking","thinking":["two"]}]}`),
		"reasoning_content": chatThinking(`{"reasoning_content":"one "}`, `{"reasoning_content":"two"}`),
	},
	"anthropic-messages": {
		"thinking deltas": sseBody(
			"event: message_start\n"+`data: {"type":"message_start","message":{"id":"msg_1"}}`,
			"event: content_block_start\n"+`data: {"type":"content_block_start","index":0,`+
				`"content_block":{"type":"thinking","thinking":""}}`,
			"event: content_block_delta\n"+`data: {"type":"content_block_delta","index":0,`+
				`"delta":{"type":"thinking_delta","thinking":"one "}}`,
			"event: content_block_delta\n"+`data: {"type":"content_block_delta","index":0,`+
				`"delta":{"type":"thinking_delta","thinking":"two"}}`,
			"event: content_block_stop\n"+`data: {"type":"content_block_stop","index":0}`,
			"event: content_block_start\n"+`data: {"type":"content_block_start","index":1,"content_block":{"type":"text",`+
				`"text":"So."}}`,
			"event: content_block_stop\n"+`data: {"type":"content_block_stop","index":1}`,
			"event: message_stop\n"+`data: {"type":"message_stop"}`),
	},
	"bedrock-converse-stream": {
		"reasoning text": frameBody(
			wireFrame{"messageStart", `{"role":"assistant"}`},
			wireFrame{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"one "}}}`},
			wireFrame{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"two"}}}`},
			wireFrame{"contentBlockStop", `{"contentBlockIndex":0}`},
			wireFrame{"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"So."}}`},
			wireFrame{"contentBlockStop", `{"contentBlockIndex":1}`},
			wireFrame{"messageStop", `{"stopReason":"end_turn"}`}),
	},
	"google-generative-ai": {"thought parts": geminiThinking(
		`{"thought":true,"text":"one "}`,
		`{"thought":true,"text":"two"}`)},
	"google-vertex": {"thought parts": geminiThinking(
		`{"thought":true,"text":"one "}`,
		`{"thought":true,"text":"two"}`)},
}

// TestPlainReasoningIsThinking checks that reasoning that a vendor streams as plain text becomes thinking deltas.
func TestPlainReasoningIsThinking(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		if len(plainReasoning[api]) == 0 {
			t.Errorf("%s has no reply that reasons", api)
		}
		for name, body := range plainReasoning[api] {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				var deltas []string
				for _, e := range replied(t, api, body) {
					if e.Type == schemas.StreamThinkingDelta {
						deltas = append(deltas, e.Delta)
					}
					if e.Type == schemas.StreamThinkingEnd && e.Content != "one two" {
						t.Errorf("the thinking ends as %q", e.Content)
					}
					if e.Terminal() {
						m := e.Message
						if got := m.Content.JoinText(); e.Type != schemas.StreamDone || got != "So." || len(m.Content) != 2 {
							t.Errorf("%s %q: text %q in %d blocks", e.Type, m.ErrorMessage, got, len(m.Content))
						}
					}
				}
				if got := strings.Join(deltas, "|"); got != "one |two" {
					t.Errorf("thinking deltas %q", got)
				}
			})
		}
	}
}
