package openaiapi_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3/option"
	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/providers/internal/vendortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a body to chat/completions below the base URL.
func post(t *testing.T, req *providers.Request, more ...option.RequestOption) error {
	t.Helper()
	req.APIKey, req.HTTP = "key", vendortest.Client(t)
	tap := transport.New(req)
	opts := append(openaiapi.Options(req, tap), more...)
	resp, err := openaiapi.Send(t.Context(), tap, "chat/completions", map[string]any{"model": "<m>"}, opts)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

func TestPathOfARequest(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"":                 "/chat/completions",
		"/v1":              "/v1/chat/completions",
		"/v1/":             "/v1/chat/completions",
		"/responses":       "/responses/chat/completions",
		"/a%2Fb/g/compat/": "/a%2Fb/g/compat/chat/completions",
		"/v1/a:b@c/openai": "/v1/a:b@c/openai/chat/completions",
	} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			vendor := vendortest.Serve(t, "text/event-stream", nil)
			req := &providers.Request{Model: &providers.Model{BaseURL: vendor.URL + base}}
			if err := post(t, req); err != nil {
				t.Fatal(err)
			}
			sent := vendor.Sent()
			if len(sent) != 1 || sent[0].Path != want {
				t.Fatalf("%+v, want one request to %s", sent, want)
			}
			if got := string(sent[0].Body); got != `{"model":"<m>","stream":true}` {
				t.Errorf("body %s", got)
			}
		})
	}
}

func TestEveryAttemptUsesThePath(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/v1/chat/completions?version=1" {
			t.Errorf("attempt %d goes to %s", attempts.Load(), r.URL.RequestURI())
		}
		if attempts.Add(1) < 3 {
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	req := &providers.Request{Model: &providers.Model{BaseURL: s.URL + "/v1"}, MaxRetries: 2,
		MaxRetryDelay: time.Second}
	if err := post(t, req, option.WithQuery("version", "1")); err != nil {
		t.Fatal(err)
	}
	if got := attempts.Load(); got != 3 {
		t.Errorf("%d attempts, want 3", got)
	}
}

func TestConnectionErrorNamesThePath(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	err := post(t, &providers.Request{Model: &providers.Model{BaseURL: s.URL + "/v1"}})
	var failed *url.Error
	if !errors.As(err, &failed) || !strings.HasSuffix(failed.URL, "/v1/chat/completions") {
		t.Errorf("%v", err)
	}
}
