package providers_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// heldOpen sends a body and then keeps the response open, as some proxies do.
func heldOpen(t *testing.T, api string, body []byte) *providers.Request {
	req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) {
		beginHead(api, w)
		_, _ = w.Write(body)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	req.IdleTimeout = 5 * time.Second
	return req
}

// TestACompleteReplyNeedsNoEndOfTheBody checks that a reply that has arrived is not thrown away, and paid for again,
// because the server keeps the response open. That holds as well for servers that do not send what usually comes last.
func TestACompleteReplyNeedsNoEndOfTheBody(t *testing.T) {
	t.Parallel()
	check := func(api, name string, body []byte, tokens int64) {
		t.Run(api+"/"+name, func(t *testing.T) {
			t.Parallel()
			m := final(t, t.Context(), api, heldOpen(t, api, body))
			if m.StopReason != schemas.StopStop || len(m.Content) == 0 {
				t.Errorf("the reply ends with %s %q, text %q", m.StopReason, m.ErrorMessage, m.Content.JoinText())
			}
			if m.Usage.TotalTokens != tokens {
				t.Errorf("usage %+v, want %d tokens in total", m.Usage, tokens)
			}
		})
	}
	for _, api := range served() {
		body := wireReplies[api].text(3)
		check(api, "the whole body", body, 12)
		if rest, ok := bytes.CutSuffix(body, []byte("data: [DONE]\n\n")); ok {
			check(api, "without DONE", rest, 12)
		}
	}
	check("bedrock-converse-stream", "without metadata", frameBody(
		wireFrame{"messageStart", `{"role":"assistant"}`},
		wireFrame{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"whole"}}`},
		wireFrame{"contentBlockStop", `{"contentBlockIndex":0}`},
		wireFrame{"messageStop", `{"stopReason":"end_turn"}`}), 0)
}

// TestAFailedReplyNeedsNoEndOfTheBody checks the same for replies that the vendor ended as failed.
func TestAFailedReplyNeedsNoEndOfTheBody(t *testing.T) {
	t.Parallel()
	for api, replies := range unknownEnds {
		for name, body := range replies {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				e := finalEvent(t, t.Context(), api, heldOpen(t, api, body))
				if e.FailureCode == schemas.FailureTimeout || e.Message.Usage.TotalTokens != 12 {
					t.Errorf("%s %q, usage %+v", e.FailureCode, e.Message.ErrorMessage, e.Message.Usage)
				}
			})
		}
	}
}

// paced is a vendor that sends the pieces of a body with a pause before each.
type paced struct {
	pause  time.Duration
	pieces []string
}

func (p paced) RoundTrip(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	go func() {
		for _, piece := range p.pieces {
			select {
			case <-time.After(p.pause):
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, piece+"\n\n")
		}
		_ = w.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r,
		Header: http.Header{"Content-Type": {"text/event-stream"}}}, nil
}

// TestAReasonThatComesTooEarlyEndsNothing has vendors that send a finish reason before the answer, as proxies do that
// translate from another API: with chunks for which they have no content, or with every chunk.
func TestAReasonThatComesTooEarlyEndsNothing(t *testing.T) {
	t.Parallel()
	chatChunk := func(delta, reason string) string {
		return `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{` + delta + `},"finish_reason":` + reason +
			`}],"usage":{"prompt_tokens":3,"completion_tokens":9}}`
	}
	chat := []string{chatChunk(``, `"stop"`), chatChunk(`"content":"one "`, `null`),
		chatChunk(`"content":"two"`, `"stop"`)}
	geminiChunk := func(parts, reason string) string {
		return `data: {"candidates":[{"content":{"parts":[` + parts + `]}` + reason + `}],` +
			`"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":9}}`
	}
	gemini := []string{geminiChunk(``, `,"finishReason":"STOP"`), geminiChunk(`{"text":"one "}`, ``),
		geminiChunk(`{"text":"two"}`, `,"finishReason":"STOP"`)}
	for api, pieces := range map[string][]string{
		"google-generative-ai": gemini, "google-vertex": gemini,
		"openai-completions": chat, "mistral-conversations": chat,
	} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				req := wireRequest(api, "http://vendor.invalid", &http.Client{Transport: paced{5 * time.Second, pieces}})
				m := final(t, t.Context(), api, req)
				if m.StopReason != schemas.StopStop || m.Content.JoinText() != "one two" {
					t.Errorf("%s %q, text %q", m.StopReason, m.ErrorMessage, m.Content.JoinText())
				}
			})
		})
	}
}
