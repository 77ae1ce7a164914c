package providers_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// A fault is a server that does not respond as it should.
type fault struct {
	serve     func(api string, w http.ResponseWriter, r *http.Request)
	text      string // part of the error text
	retryable bool
}

var faults = map[string]fault{
	"a stream that is cut": {
		serve: func(api string, w http.ResponseWriter, _ *http.Request) {
			beginReply(api, w)
			panic(http.ErrAbortHandler)
		},
		text: "terminated", retryable: true,
	},
	"a stream that stalls": {
		serve: func(api string, w http.ResponseWriter, r *http.Request) {
			beginReply(api, w)
			<-r.Context().Done()
		},
		text: "timed out", retryable: true,
	},
	"a stream that ends early": {
		serve:     func(api string, w http.ResponseWriter, _ *http.Request) { beginReply(api, w) },
		retryable: true,
	},
	"a response without a body": {
		serve:     func(api string, w http.ResponseWriter, _ *http.Request) { beginHead(api, w) },
		retryable: true,
	},
	"broken JSON": {
		serve: func(api string, w http.ResponseWriter, _ *http.Request) {
			beginReply(api, w)
			_, _ = io.WriteString(w, "\n\nevent: x\ndata: {\"broken\": \"jso\n\ndata: ]]\n\n")
		},
		retryable: true,
	},
	"no response": {
		serve: func(_ string, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		text:  "timed out", retryable: true,
	},
	"a connection that is closed": {
		serve: func(string, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		text:  "connection error", retryable: true,
	},
	"another host": {
		serve: func(_ string, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.invalid/?key=a-key-for-tests", http.StatusTemporaryRedirect)
		},
	},
	"a page": {
		serve: func(_ string, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html><body>Sign in to the guest network</body></html>")
		},
		retryable: true,
	},
}

// beginHead is the header of a successful response.
func beginHead(api string, w http.ResponseWriter) {
	w.Header().Set("Content-Type", cmp.Or(wireReplies[api].contentType, "text/event-stream"))
	_ = http.NewResponseController(w).Flush()
}

// beginReply sends most of a valid reply.
func beginReply(api string, w http.ResponseWriter) {
	beginHead(api, w)
	body := wireReplies[api].text(8)
	_, _ = w.Write(body[:len(body)*3/5])
	_ = http.NewResponseController(w).Flush()
}

// serveFault returns a request to a server with the fault.
func serveFault(t *testing.T, api string, serve func(http.ResponseWriter, *http.Request)) *providers.Request {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		serve(w, r)
	}))
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		transport.CloseIdleConnections()
	})
	req := wireRequest(api, s.URL, &http.Client{Transport: transport})
	return req
}

// final reads a stream, which must be well formed, and returns its message.
func final(t *testing.T, ctx context.Context, api string, req *providers.Request) *schemas.AssistantMessage {
	t.Helper()
	return finalEvent(t, ctx, api, req).Message
}

// finalEvent reads a stream, which must be well formed, and returns its last event.
func finalEvent(t *testing.T, ctx context.Context, api string, req *providers.Request) schemas.StreamEvent {
	t.Helper()
	var events []schemas.StreamEvent
	for e, err := range apis[api](ctx, req) {
		if err != nil {
			t.Fatalf("the iterator yielded the error %v", err)
		}
		events = append(events, e)
	}
	checkWellFormed(t, events)
	return events[len(events)-1]
}

// TestFaults checks that the reply of a faulty server is a final message whose error names the fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		for name, f := range faults {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) { f.serve(api, w, r) })
				req.Timeout, req.IdleTimeout = time.Minute, time.Minute
				switch name {
				case "no response":
					req.Timeout = 50 * time.Millisecond
				case "a stream that stalls":
					req.IdleTimeout = 50 * time.Millisecond
				}
				e := finalEvent(t, t.Context(), api, req)
				m := e.Message
				if m.StopReason != schemas.StopError || !strings.Contains(m.ErrorMessage, f.text) {
					t.Errorf("%s: %q, want %q in it", m.StopReason, m.ErrorMessage, f.text)
				}
				if got := e.FailureCode.Retryable(); got != f.retryable {
					t.Errorf("%s %q retryable: %t", e.FailureCode, m.ErrorMessage, got)
				}
				if strings.Contains(m.ErrorMessage, req.APIKey) {
					t.Errorf("the key is in %q", m.ErrorMessage)
				}
			})
		}
	}
}

// TestStatuses checks that every failed response is a final message that contains the text of the body and not the key.
// A long body is tested with only one status of each kind, because classifying its text takes time.
func TestStatuses(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		`{"error":{"message":"the reason, a-key-for-tests","type":"t"}}`: "the reason",
		`{"message":"the reason","key":"a-key-for-tests"}`:               "the reason",
		`<html>the reason a-key-for-tests</html>`:                        "the reason",
		`"the reason`:            "the reason",
		`{"error":"the reason"}`: "the reason",
		`{"error":{"code":1}}`:   "code",
		"":                       "",
	}
	long := maps.Clone(bodies)
	long[strings.Repeat("x", 1e5)] = "xxx"
	for _, api := range served() {
		for _, status := range []int{400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 499, 500, 501, 502, 503, 504, 520, 529,
			599} {
			t.Run(fmt.Sprintf("%s/%d", api, status), func(t *testing.T) {
				t.Parallel()
				bodies := bodies
				if status%100 == 0 || status == http.StatusTooManyRequests {
					bodies = long
				}
				for body, text := range bodies {
					req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
						w.WriteHeader(status)
						_, _ = io.WriteString(w, body)
					})
					m := final(t, t.Context(), api, req)
					if m.StopReason != schemas.StopError || !strings.Contains(m.ErrorMessage, text) ||
						strings.Contains(m.ErrorMessage, req.APIKey) {
						t.Errorf("body %.60q: %s, %.200q", body, m.StopReason, m.ErrorMessage)
					}
				}
			})
		}
	}
}

// TestEveryStatus has a server that responds with every status and no body. Its redirects have no location.
func TestEveryStatus(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			status := 0
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			for status = 200; status < 600; status++ {
				if m := final(t, t.Context(), api, req); m.StopReason != schemas.StopError || m.ErrorMessage == "" {
					t.Errorf("%d: %s, %q", status, m.StopReason, m.ErrorMessage)
				}
			}
		})
	}
}

// TestALongRetryAfterIsNotWaitedFor has a vendor that requests a wait of an hour, which is longer than a request may
// wait. The reply is a retryable failure, so the session decides.
func TestALongRetryAfterIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				w.Header().Set("Retry-After", "3600")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"error":{"message":"rate limit exceeded"},"message":"rate limit exceeded"}`)
			})
			req.MaxRetries = 2
			e := finalEvent(t, t.Context(), api, req)
			if e.Reason != schemas.StopError || requests.Load() != 1 || e.FailureCode != schemas.FailureRateLimited {
				t.Errorf("after %d requests: %s %s %q", requests.Load(), e.Reason, e.FailureCode, e.Message.ErrorMessage)
			}
		})
	}
}

// TestAbortDoesNotWait checks that a request can be cancelled while it waits for the server, or before a retry.
func TestAbortDoesNotWait(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"for the response": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"for another attempt": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "50")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	} {
		for _, api := range served() {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) {
					time.AfterFunc(20*time.Millisecond, cancel)
					serve(w, r)
				})
				req.MaxRetries = 2
				begun := time.Now()
				m := final(t, ctx, api, req)
				if took := time.Since(begun); took > 40*time.Second {
					t.Errorf("it took %s", took)
				}
				// An API that does not retry may have failed before the request was cancelled.
				if m.StopReason != schemas.StopAborted && name == "for the response" {
					t.Errorf("%s: %s", m.StopReason, m.ErrorMessage)
				}
			})
		}
	}
}
