package providers_test

import (
	"bytes"
	"compress/flate"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// TestHeadersOfMegabytes has response headers that are longer than a client reads.
func TestHeadersOfMegabytes(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	for _, api := range served() {
		for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
			t.Run(api, func(t *testing.T) {
				t.Parallel()
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("X-Long", strings.Repeat("h", 20<<20))
					w.WriteHeader(status)
				})
				m := final(t, t.Context(), api, req)
				if m.StopReason != schemas.StopError || len(m.ErrorMessage) > 10_000 {
					t.Errorf("%s, a text of %d bytes", m.StopReason, len(m.ErrorMessage))
				}
			})
		}
	}
}

// A kilobyte of a compressed reply could take as much time to read as a megabyte.
func TestNoCompressionIsRequested(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept-Encoding"); strings.Contains(got, "gzip") {
					t.Errorf("Accept-Encoding: %s", got)
				}
				w.WriteHeader(http.StatusBadRequest)
			})
			req.HTTP = nil
			final(t, t.Context(), api, req)
		})
	}
}

// TestManyHeaders has a response with a hundred thousand tiny headers, which parsed would use megabytes for as long as
// the response is open.
func TestManyHeaders(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
				c, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+strings.Repeat("x1:\r\n", 100_000)+"\r\n")
				_, _ = io.Copy(io.Discard, c) // until the client leaves
			})
			req.HTTP = nil
			m := final(t, t.Context(), api, req)
			if m.StopReason != schemas.StopError || !strings.Contains(m.ErrorMessage, "exceeded") {
				t.Errorf("%s: %.500q", m.StopReason, m.ErrorMessage)
			}
		})
	}
}

// TestLittleIsReadOfRedirects has responses that are neither successful nor failed and never end. Some SDKs would
// decode them as a whole.
func TestLittleIsReadOfRedirects(t *testing.T) { // not parallel, because it measures memory
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			var sent atomic.Int64
			ended := make(chan struct{})
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
				defer close(ended)
				w.WriteHeader(http.StatusMultipleChoices)
				sent.Store(flood(w, []byte(`{"x":[{}`), []byte(strings.Repeat(",{}", 10_000))))
			})
			req.Limits = providers.Limits{}
			bounded(t, func() {
				if m := final(t, t.Context(), api, req); m.StopReason != schemas.StopError {
					t.Errorf("%s", m.StopReason)
				}
			})
			<-ended
			if sent.Load() > 32<<20 { // the connection's buffers count as sent too
				t.Errorf("%d bytes were read", sent.Load())
			}
		})
	}
}

// TestEncodingsNobodyAskedFor has replies in compressed encodings that the client did not request.
func TestEncodingsNobodyAskedFor(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		for _, encoding := range []string{"deflate", "br", "zstd"} {
			t.Run(api+"/"+encoding, func(t *testing.T) {
				t.Parallel()
				var body bytes.Buffer
				z, err := flate.NewWriter(&body, 1)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := z.Write(wireReplies[api].text(3)); err != nil || z.Close() != nil {
					t.Fatal(err)
				}
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Encoding", encoding)
					beginHead(api, w)
					_, _ = w.Write(body.Bytes())
				})
				e := finalEvent(t, t.Context(), api, req)
				if e.FailureCode != schemas.FailureServerError || !strings.Contains(e.Message.ErrorMessage, encoding) {
					t.Errorf("%s %q, want the encoding in it", e.FailureCode, e.Message.ErrorMessage)
				}
			})
		}
	}
}

// TestHundredsOfHeaders has a reply, and an error, with more headers than are kept for as long as a reply takes.
func TestHundredsOfHeaders(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		for _, status := range []int{http.StatusOK, http.StatusBadRequest} {
			t.Run(api+"/"+strconv.Itoa(status), func(t *testing.T) {
				t.Parallel()
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					for i := range 150 {
						w.Header().Set("H"+strconv.Itoa(i), "")
						w.Header().Add("Again", "")
					}
					if status != http.StatusOK {
						w.WriteHeader(status)
						return
					}
					beginHead(api, w)
					_, _ = w.Write(wireReplies[api].text(3))
				})
				e := finalEvent(t, t.Context(), api, req)
				if e.FailureCode != schemas.FailureServerError || !strings.Contains(e.Message.ErrorMessage, "headers, more than") {
					t.Errorf("%s %q, want the number of headers in it", e.FailureCode, e.Message.ErrorMessage)
				}
			})
		}
	}
}

// TestKeysStayWithTheirHost has a vendor that redirects to another host, with every status of a redirect.
func TestKeysStayWithTheirHost(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			var strayed atomic.Int64
			elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				strayed.Add(1)
				beginHead(api, w)
				_, _ = w.Write(wireReplies[api].text(1))
			}))
			t.Cleanup(elsewhere.Close)
			for _, status := range []int{300, 301, 302, 303, 307, 308} {
				req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, elsewhere.URL+"/v1", status)
				})
				if m := final(t, t.Context(), api, req); m.StopReason != schemas.StopError {
					t.Errorf("%d: %s", status, m.StopReason)
				}
			}
			if n := strayed.Load(); n > 0 {
				t.Errorf("%d requests went elsewhere", n)
			}
		})
	}
}

// TestOneByteAtATime has a server that sends bytes but no events. Only events count for the idle limit.
func TestOneByteAtATime(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		for name, piece := range map[string]string{"half an event": "x", "comments": ": still here\n\n",
			"pings": "event: ping\ndata: {\"type\":\"ping\"}\n\n"} {
			if api == "bedrock-converse-stream" && name != "half an event" {
				continue
			}
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) {
					beginHead(api, w)
					if name == "half an event" && api == "bedrock-converse-stream" {
						_, _ = w.Write(frameBody(wireFrame{"messageStart", `{"role":"` + strings.Repeat("x", 5000)})[:100])
					}
					for r.Context().Err() == nil {
						if _, err := io.WriteString(w, piece); err != nil {
							return
						}
						_ = http.NewResponseController(w).Flush()
						select {
						case <-time.After(5 * time.Millisecond):
						case <-r.Context().Done():
						}
					}
				})
				req.IdleTimeout = 50 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if e := finalEvent(t, ctx, api, req); e.FailureCode != schemas.FailureTimeout {
					t.Errorf("%s %s %q, want a timeout", e.Reason, e.FailureCode, e.Message.ErrorMessage)
				}
			})
		}
	}
}

// noProgress holds an event of each API that does not advance the reply.
var noProgress = map[string][]string{
	"openai-completions":    {`{"choices":[{"delta":{}}]}`, `{"choices":[]}`, `{}`},
	"mistral-conversations": {`{"choices":[{"delta":{}}]}`, `{}`},
	"google-generative-ai":  {`{"candidates":[{"content":{"parts":[]}}]}`, `{}`},
	"openai-responses":      {`{"type":"response.in_progress"}`, `{}`},
	"anthropic-messages": {`{"type":"content_block_stop","index":7}`, `{"type":"message_start"}`,
		`{"type":"content_block_delta","index":7}`},
	"bedrock-converse-stream": {`{"role":"assistant"}`, `{"role":"assistant","x":1}`},
}

// TestEventsWithoutProgress has a server that sends events without end, none of which advances the reply.
func TestEventsWithoutProgress(t *testing.T) {
	t.Parallel()
	for api, events := range noProgress {
		for _, event := range events {
			t.Run(api+"/"+event, func(t *testing.T) {
				t.Parallel()
				body := bodyOfEvent(api, event)
				req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) {
					beginHead(api, w)
					for r.Context().Err() == nil {
						if _, err := w.Write(body); err != nil {
							return
						}
						_ = http.NewResponseController(w).Flush()
						select {
						case <-time.After(5 * time.Millisecond):
						case <-r.Context().Done():
						}
					}
				})
				req.IdleTimeout = 50 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if e := finalEvent(t, ctx, api, req); e.FailureCode != schemas.FailureTimeout {
					t.Errorf("%s %s %q, want a timeout", e.Reason, e.FailureCode, e.Message.ErrorMessage)
				}
			})
		}
	}
}

// TestAbortWhileSomethingComes aborts replies that would not end by themselves.
func TestAbortWhileSomethingComes(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		head, delta := endless(api, true, 10)
		for name, serve := range map[string]func(w http.ResponseWriter){
			"fragments of a call": func(w http.ResponseWriter) { flood(w, head, delta) },
			"an event":            func(w http.ResponseWriter) { flood(w, []byte("data: {"), []byte("w")) },
			"an error": func(w http.ResponseWriter) {
				w.WriteHeader(http.StatusBadRequest)
				flood(w, []byte("{"), []byte("w"))
			},
		} {
			if api == "bedrock-converse-stream" && name == "an event" {
				continue // not valid as a frame
			}
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					time.AfterFunc(50*time.Millisecond, cancel)
					if name != "an error" {
						beginHead(api, w)
					}
					serve(w)
				})
				req.Limits = providers.Limits{Body: -1, Reply: -1, Arguments: -1, ErrorBody: 1 << 30}
				begun := time.Now()
				e := finalEvent(t, ctx, api, req)
				if e.Reason != schemas.StopAborted && e.FailureCode != schemas.FailureTooLarge { // which may happen first
					t.Errorf("%s %s %.100q", e.Reason, e.FailureCode, e.Message.ErrorMessage)
				}
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		}
	}
}

// TestUsageThatIsNoCount has counts that are impossible. The reply keeps its text.
func TestUsageThatIsNoCount(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		for _, count := range []string{"1e999", "-1e999", "9223372036854775807", "1e300", "0.5", `"many"`, "[1]", "null"} {
			t.Run(api+"/"+count, func(t *testing.T) {
				t.Parallel()
				body := string(wireReplies[api].text(2))
				for _, n := range []string{"3", "9", "12"} {
					body = strings.ReplaceAll(body, `":`+n+`,`, `":`+count+`,`)
					body = strings.ReplaceAll(body, `":`+n+`}`, `":`+count+`}`)
				}
				if api == "bedrock-converse-stream" {
					body = string(frameBody(wireFrame{"messageStart", `{"role":"assistant"}`},
						wireFrame{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"hi"}}`},
						wireFrame{"messageStop", `{"stopReason":"end_turn"}`},
						wireFrame{"metadata", `{"usage":{"inputTokens":` + count + `,"outputTokens":` + count + `}}`}))
				}
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					beginHead(api, w)
					_, _ = io.WriteString(w, body)
				})
				req.Model.Cost = providers.Rates{Input: 1, Output: 1}
				m := final(t, t.Context(), api, req)
				if m.StopReason != schemas.StopStop {
					t.Errorf("%s %q", m.StopReason, m.ErrorMessage)
				}
				if m.Usage != m.Usage.Clamped() {
					t.Errorf("%+v", m.Usage)
				}
			})
		}
	}
}

// TestRepeatedIDs has calls that all have the same id, without an index and with a different one each.
func TestRepeatedIDs(t *testing.T) {
	t.Parallel()
	for _, api := range []string{"openai-completions", "mistral-conversations"} {
		for name, call := range map[string]string{
			"ids":     `{"id":"same","function":{"name":"ls","arguments":"{}"}}`,
			"indexes": `{"index":§,"id":"same","function":{"name":"ls","arguments":" "}}`,
		} {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					beginHead(api, w)
					for n := range 20_000 {
						one := strings.Replace(call, "§", strconv.Itoa(n), 1)
						if _, err := io.WriteString(w, `data: {"choices":[{"delta":{"tool_calls":[`+one+`]}}]}`+"\n\n"); err != nil {
							return
						}
					}
					_, _ = io.WriteString(w, "data: [DONE]\n\n")
				})
				req.Limits = providers.Limits{}
				m := final(t, t.Context(), api, req)
				if n := int64(len(m.Content)); n > providers.DefaultLimits.Calls {
					t.Errorf("%d calls", n)
				}
			})
		}
	}
}

// TestHalfAnEventAtTheEnd cuts a valid reply at each of its bytes. A reply that is incomplete must fail.
func TestHalfAnEventAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		for kind, reply := range map[string]func(int) []byte{"text": wireReplies[api].text, "call": wireReplies[api].call} {
			t.Run(api+"/"+kind, func(t *testing.T) {
				t.Parallel()
				whole := reply(3)
				want := textOf(final(t, t.Context(), api, wireRequest(api, serveBody(t, api, whole, false), nil)))
				for cut := 0; cut < len(whole); cut += 13 {
					req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
						beginHead(api, w)
						_, _ = w.Write(whole[:cut])
					})
					m := final(t, t.Context(), api, req)
					if m.StopReason != schemas.StopError && textOf(m) != want {
						t.Errorf("cut at %d of %d: %s with %q", cut, len(whole), m.StopReason, textOf(m))
					}
				}
			})
		}
	}
}

// textOf returns the text, thinking and calls of a reply.
func textOf(m *schemas.AssistantMessage) (text string) {
	for _, c := range m.Content {
		switch c := c.(type) {
		case schemas.Text:
			text += c.Text
		case schemas.ToolCall:
			text += c.Name + string(c.Arguments)
		}
	}
	return text
}
