package providers_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// keepsTexts has events of APIs with a text that a reader could keep until the reply ends although it is not part of
// of it, and an event with a text of the reply. § is the text, # the number of the event, of which there are so many.
var keepsTexts = []struct {
	what, api   string
	times       int
	event, text string
}{
	{"ids of one call", "openai-completions", 64,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"#§","function":{"name":"ls","arguments":" "}}]}}]}`,
		`{"choices":[{"delta":{"content":"x"}}]}`},
	{"a finish reason", "openai-completions", 1, `{"choices":[{"delta":{},"finish_reason":"§"}]}`,
		`{"choices":[{"delta":{"content":"x"}}]}`},
	{"a finish reason", "mistral-conversations", 1, `{"choices":[{"delta":{},"finish_reason":"§"}]}`,
		`{"choices":[{"delta":{"content":"x"}}]}`},
	{"types of parts", "openai-responses", 64,
		`{"type":"response.output_item.added","output_index":#,"item":{"type":"message","id":"m"}}` + "\n\n" +
			`data: {"type":"response.content_part.added","output_index":#,"part":{"type":"§"}}`,
		`{"type":"response.output_item.added","output_index":1000,"item":{"type":"message","id":"m"}}` + "\n\n" +
			`data: {"type":"response.content_part.added","output_index":1000,"part":{"type":"output_text"}}` + "\n\n" +
			`data: {"type":"response.output_text.delta","output_index":1000,"delta":"x"}`},
	{"a finish reason", "google-generative-ai", 1, `{"candidates":[{"finishReason":"§"}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}`},
	{"a block reason", "google-generative-ai", 1, `{"promptFeedback":{"blockReason":"§"}}`,
		`{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}`},
	{"a stop reason", "bedrock-converse-stream", 1, `messageStop {"stopReason":"§"}`,
		`contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"x"}}`},
}

// TestWhatIsKeptIsCounted has servers that send texts which are no part of the reply, and keep the connection open. The
// reply ends, or a reader does not keep them.
func TestWhatIsKeptIsCounted(t *testing.T) { // not parallel, because it measures memory
	const limit, all = 256 << 10, 4 << 20
	for _, test := range keepsTexts {
		t.Run(test.api+" "+test.what, func(t *testing.T) {
			var body []byte
			event := func(text string) {
				if name, payload, frame := strings.Cut(text, " "); frame && test.api == "bedrock-converse-stream" {
					body = append(body, frameBody(wireFrame{name, payload})...)
				} else {
					body = append(body, "data: "+text+"\n\n"...)
				}
			}
			for i := range test.times {
				event(strings.NewReplacer("#", fmt.Sprint(i), "§", strings.Repeat("w", all/test.times)).Replace(test.event))
			}
			event(test.text)
			req := serveFault(t, test.api, func(w http.ResponseWriter, r *http.Request) {
				beginHead(test.api, w)
				_, _ = w.Write(body)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			req.Limits = providers.Limits{Reply: limit}
			runtime.GC()
			before := inUse()
			for e := range apis[test.api](t.Context(), req) {
				if e.Type == schemas.StreamTextDelta {
					runtime.GC()
					if now := inUse(); now > before+all/2 {
						t.Errorf("%d KiB in use, %d before", now>>10, before>>10)
					}
					return
				}
				if e.Type == schemas.StreamError && e.FailureCode != schemas.FailureTooLarge {
					t.Errorf("it ends with %.300q", e.Message.ErrorMessage)
				}
			}
		})
	}
}
