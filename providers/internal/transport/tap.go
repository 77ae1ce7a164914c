// Package transport is the HTTP side of a model request: the client that a vendor's SDK is given.
//
// SDKs differ in what they make of a failing response, a cut body and a timeout; some lose the body, some go on as if
// nothing had happened, and their timeouts cut running streams. A [Tap] sits below them and sees what came over the
// wire.
package transport

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// A Tap is the transport of one request and its retries. It
//
//   - shows the request's OnPayload the body, and sends what that makes of it,
//   - sets the headers of the model, of GitHub Copilot and of the request, over those of the SDK,
//   - limits how long each attempt waits for the response's head, and nothing after it,
//   - limits how much of a response is read,
//   - tells the request's OnResponse of every head,
//   - has an SDK not retry where the vendor asks for a wait longer than the request allows,
//   - remembers the failing response, and has a body that breaks off end with a [CutError].
//
// Its methods may be called concurrently.
type Tap struct {
	req    *providers.Request
	base   http.RoundTripper
	limits providers.Limits

	mu      sync.Mutex
	failure *Failure // of the newest response; nil if it is a good one
}

// New returns the tap for a request.
func New(req *providers.Request) *Tap {
	t := &Tap{req: req, base: http.DefaultTransport, limits: req.Limits.Or(providers.DefaultLimits)}
	if req.HTTP != nil && req.HTTP.Transport != nil {
		t.base = req.HTTP.Transport
	}
	return t
}

// Client returns an HTTP client on the tap. It has no time limit of its own, and follows no redirect to another host:
// most vendors' keys are in headers that would be sent there.
func (t *Tap) Client() *http.Client {
	c := &http.Client{Transport: t, CheckRedirect: sameHost}
	if t.req.HTTP != nil {
		c.Jar = t.req.HTTP.Jar
	}
	return c
}

func sameHost(next *http.Request, via []*http.Request) error {
	if len(via) >= 10 || next.URL.Host != via[0].URL.Host || next.URL.Scheme != via[0].URL.Scheme {
		return fmt.Errorf("redirected to %s://%s, which is not followed", next.URL.Scheme, next.URL.Host)
	}
	return nil
}

// RoundTrip sends one attempt. Its errors are a [TimeoutError], a [ConnectError], or the context's.
func (t *Tap) RoundTrip(r *http.Request) (*http.Response, error) {
	t.begin()
	r, err := t.withPayload(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	limit := t.req.Timeout
	if limit <= 0 {
		limit = providers.DefaultTimeout
	}
	timer := time.AfterFunc(limit, cancel)
	resp, err := t.base.RoundTrip(t.withHeaders(r.WithContext(ctx)))
	if inTime := timer.Stop(); !inTime && r.Context().Err() == nil {
		if err == nil {
			_ = resp.Body.Close()
		}
		cancel()
		return nil, &TimeoutError{Limit: limit}
	}
	if err != nil {
		cancel()
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		return nil, &ConnectError{Err: err}
	}
	t.head(resp)
	resp.Body = t.body(r, resp, cancel)
	if encoding := resp.Header.Get("Content-Encoding"); resp.StatusCode < 300 && !readable(encoding) {
		_ = resp.Body.Close()
		return nil, schemas.NewFailure(schemas.FailureServerError,
			fmt.Sprintf("the response comes in the encoding %.40q, which nobody asked for", encoding))
	}
	return resp, nil
}

// readable reports whether a body in an encoding can be read as it is. What net/http has decoded has none.
func readable(encoding string) bool { return encoding == "" || strings.EqualFold(encoding, "identity") }

// body returns the response's body with its limits. What is neither a good response nor a failure, such as a
// redirection to nowhere, has no more to say than a failure.
func (t *Tap) body(r *http.Request, resp *http.Response, cancel context.CancelFunc) *body {
	b := &body{ReadCloser: resp.Body, tap: t, ctx: r.Context(), cancel: cancel, most: t.limits.Body}
	switch {
	case resp.StatusCode >= 400:
		b.limit, b.left = time.AfterFunc(errorBodyTime, cancel), t.limits.ErrorBody
		t.fail(resp)
		return b
	case resp.StatusCode >= 300:
		b.most = t.limits.ErrorBody
	}
	b.left = b.most + 1
	return b
}

// withHeaders returns a copy of the request with the configured headers.
func (t *Tap) withHeaders(r *http.Request) *http.Request {
	own := copilotHeaders(t.req)
	if len(t.req.Model.Headers)+len(own)+len(t.req.Headers) == 0 {
		return r
	}
	r.Header = r.Header.Clone()
	for _, headers := range []map[string]string{t.req.Model.Headers, own, t.req.Headers} {
		for name, value := range headers {
			r.Header.Set(name, value)
		}
	}
	return r
}

// head does what a response's head is enough for.
func (t *Tap) head(resp *http.Response) {
	longest := t.req.MaxRetryDelay
	if longest <= 0 {
		longest = providers.DefaultMaxRetryDelay
	}
	if wait, ok := RetryAfter(resp.Header, t.req.Time()); ok && wait > longest && resp.StatusCode >= 400 {
		resp.Header.Set("X-Should-Retry", "false")
	}
	if t.req.OnResponse != nil {
		t.req.OnResponse(resp.StatusCode, resp.Header)
	}
}

// begin forgets what is known of the attempt before.
func (t *Tap) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = nil
}

func (t *Tap) fail(resp *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = &Failure{Status: resp.StatusCode, Header: resp.Header.Clone()}
}

// Failure returns the newest response if its status is 400 or above, with as much of its body as was read.
func (t *Tap) Failure() (Failure, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		return Failure{}, false
	}
	return *t.failure, true
}
