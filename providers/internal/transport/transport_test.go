package transport_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server. It returns a request with its own transport, and the server's URL.
func serve(t *testing.T, handler http.HandlerFunc) (*providers.Request, string) {
	s := httptest.NewServer(handler)
	base := new(http.Transport)
	t.Cleanup(func() {
		base.CloseIdleConnections()
		s.CloseClientConnections()
		s.Close()
	})
	return &providers.Request{Model: new(providers.Model), HTTP: &http.Client{Transport: base}}, s.URL
}

func get(ctx context.Context, tap *transport.Tap, url string) (body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("X-Sdk", "sdk")
	resp, err := tap.Client().Do(r)
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(resp.Body)
	return string(raw), errors.Join(err, resp.Body.Close())
}

func TestHeadersAreSetOverThoseOfTheSDK(t *testing.T) {
	req, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"X-Sdk", "X-Model", "X-Both"} {
			_, _ = io.WriteString(w, r.Header.Get(name)+" ")
		}
	})
	req.Model.Headers = map[string]string{"X-Model": "model", "X-Both": "model"}
	req.Headers = map[string]string{"x-both": "request", "x-sdk": "request"}
	var statuses []int
	req.OnResponse = func(status int, _ http.Header) { statuses = append(statuses, status) }
	got, err := get(t.Context(), transport.New(req), url)
	if got != "request model request " || err != nil || !slices.Equal(statuses, []int{200}) {
		t.Errorf("%q, %v, statuses %v", got, err, statuses)
	}
}

func TestTimeoutEndsWithTheHeader(t *testing.T) {
	const limit = 50 * time.Millisecond
	req, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/never" {
			<-r.Context().Done()
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-time.After(3 * limit):
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "slowly")
	})
	req.Timeout = limit
	_, err := get(t.Context(), transport.New(req), url+"/never")
	if timeout := new(transport.TimeoutError); !errors.As(err, &timeout) || !retryable(err) {
		t.Errorf("a response that never begins: %v", err)
	}
	req.Timeout = time.Minute
	tap := transport.New(req)
	if body, err := get(t.Context(), tap, url); body != "slowly" || err != nil {
		t.Errorf("a response that goes on: %q, %v", body, err)
	}
}

func retryable(err error) bool {
	return schemas.FailureCodeOf(err).Retryable()
}

func TestCutBodyIsAnError(t *testing.T) {
	req, url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	tap := transport.New(req)
	body, err := get(t.Context(), tap, url)
	cut := new(transport.CutError)
	if body != "half" || !errors.As(err, &cut) || !retryable(err) {
		t.Errorf("%q, %v", body, err)
	}
}

func TestRefusedConnection(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	req := &providers.Request{Model: new(providers.Model), HTTP: &http.Client{Transport: new(http.Transport)}}
	_, err := get(t.Context(), transport.New(req), s.URL+"?key=secret")
	if connect := new(transport.ConnectError); !errors.As(err, &connect) || !retryable(err) ||
		strings.Contains(transport.Text(err), "secret") {
		t.Errorf("%v, text %q", err, transport.Text(err))
	}
}

func TestCancelReturnsTheContextError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	req, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		if r.URL.Path == "/head" {
			cancel()
		}
		<-r.Context().Done()
	})
	tap := transport.New(req)
	if _, err := get(ctx, tap, url+"/head"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestFailureKeepsTheBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"a": 1,  "b": [2]}`: `{"a":1,"b":[2]}`, " <html>\n": "<html>", "": "",
		strings.Repeat("x", 100_000): strings.Repeat("x", 64<<10),
	} {
		req, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/good" {
				return
			}
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, body)
		})
		asked := ""
		req.OnResponse = func(_ int, h http.Header) { asked = h.Get("X-Should-Retry") }
		tap := transport.New(req)
		if got, err := get(t.Context(), tap, url); got != body[:min(len(body), 64<<10)] || err != nil {
			t.Errorf("the SDK read %.50q, %v", got, err)
		}
		if f, ok := tap.Failure(); !ok || f.Status != 429 || f.Text() != want || asked != "false" {
			t.Errorf("%t %d %.50q, retry %q", ok, f.Status, f.Text(), asked)
		}
		if _, err := get(t.Context(), tap, url+"/good"); err != nil {
			t.Error(err)
		}
		if _, ok := tap.Failure(); ok {
			t.Error("a good response is a failure")
		}
	}
}

func TestNoRedirectToAnotherHost(t *testing.T) {
	reached := false
	_, other := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	req, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/other":
			http.Redirect(w, r, other, http.StatusTemporaryRedirect)
		case "/own":
			http.Redirect(w, r, "/here", http.StatusTemporaryRedirect)
		}
	})
	if _, err := get(t.Context(), transport.New(req), url+"/other"); err == nil || reached {
		t.Errorf("followed: %t, %v", reached, err)
	}
	if _, err := get(t.Context(), transport.New(req), url+"/own"); err != nil {
		t.Error(err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		header, value string
		want          time.Duration
		ok            bool
	}{
		{"Retry-After", "2", 2 * time.Second, true},
		{"Retry-After", "0.5", time.Second / 2, true},
		{"Retry-After-Ms", "20", 20 * time.Millisecond, true},
		{"Retry-After", now.Add(time.Minute).Format(http.TimeFormat), time.Minute, true},
		{"Retry-After", now.Add(-time.Minute).Format(http.TimeFormat), 0, true},
		{"Retry-After", "1e300", 1 << 62, true},
		{"Retry-After", "-1", 0, false},
		{"Retry-After", "soon", 0, false},
		{"Retry-After", "NaN", 0, false},
		{"X-Other", "1", 0, false},
	} {
		got, ok := transport.RetryAfter(http.Header{tc.header: {tc.value}}, now)
		if got != tc.want || ok != tc.ok {
			t.Errorf("%s %s: %s, %t", tc.header, tc.value, got, ok)
		}
	}
}

// TestSignedAndOtherPayloadsAreNotChanged checks that OnPayload gets no body that is signed or not a JSON object.
func TestSignedAndOtherPayloadsAreNotChanged(t *testing.T) {
	req, url := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	asked := 0
	req.OnPayload = func(context.Context, json.RawMessage) (json.RawMessage, error) {
		asked++
		return json.RawMessage(`{"changed":true}`), nil
	}
	for _, c := range []struct{ body, authorization, want string }{
		{`{"a":1}`, "AWS4-HMAC-SHA256 Credential=x", `{"a":1}`},
		{"a=1", "", "a=1"},
		{`{"a":`, "", `{"a":`},
		{` {"a":1}`, "Bearer key", `{"changed":true}`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", c.authorization)
		resp, err := transport.New(req).Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); err != nil || string(got) != c.want {
			t.Errorf("of %s, sent %q, %v, want %s", c.body, got, err, c.want)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
