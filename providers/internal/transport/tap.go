// Package transport is the HTTP client that vendors' SDKs use for model requests.
//
// SDKs handle failed responses, truncated bodies and timeouts differently: some lose the body, some continue as if
// nothing had happened, and their timeouts cut off running streams. A [Tap] is below them and sees what was received.
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
//   - calls the request's OnPayload with the body, and sends the body that it returns,
//   - sets the headers of the model, of GitHub Copilot and of the request, in place of the SDK's,
//   - limits the time of each attempt until the response's header, and not the time after it,
//   - limits how much of a response is read,
//   - keeps no body of a request once it is answered,
//   - calls the request's OnResponse for every response header,
//   - stops the SDK from retrying if the vendor requests a longer wait than the request allows,
//   - keeps the newest failed response, and ends a body that is cut off with a [CutError].
//
// Its methods are safe for concurrent use.
type Tap struct {
	req    *providers.Request
	base   http.RoundTripper
	limits providers.Limits

	mu      sync.Mutex
	failure *Failure // the newest response; nil if that did not fail
}

// New returns the tap for a request. It uses the transport of the request's HTTP client.
func New(req *providers.Request) *Tap {
	t := &Tap{req: req, base: ownTransport(), limits: req.Limits.Or(providers.DefaultLimits)}
	if req.HTTP != nil && req.HTTP.Transport != nil {
		t.base = req.HTTP.Transport
	}
	return t
}

// Client returns an HTTP client that uses the tap. It has no timeout of its own. It does not follow redirects to
// another host, because most vendors' keys are in headers that would be sent there.
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

// RoundTrip sends one attempt. Its error is a [TimeoutError], a [ConnectError], the context's error, that of OnPayload,
// or a server_error for a response with too many headers or in an encoding that was not requested.
func (t *Tap) RoundTrip(r *http.Request) (*http.Response, error) {
	t.reset()
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
	sent, forget := ownBody(t.withHeaders(r.WithContext(ctx)))
	collect(sent)
	resp, err := t.base.RoundTrip(sent)
	if err == nil {
		resp.Body = pump(ctx, resp.Body)
	}
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
	forget()
	if n := countHeaders(resp.Header); n > maxHeaders {
		_ = resp.Body.Close()
		cancel()
		return nil, schemas.NewFailure(schemas.FailureServerError,
			fmt.Sprintf("the response has %d headers, more than %d", n, maxHeaders))
	}
	t.handleHeader(resp)
	resp.Body = t.body(r, resp, cancel)
	if encoding := resp.Header.Get("Content-Encoding"); resp.StatusCode < 300 && !readable(encoding) {
		_ = resp.Body.Close()
		return nil, schemas.NewFailure(schemas.FailureServerError,
			fmt.Sprintf("the response comes in the encoding %.40q, which nobody asked for", encoding))
	}
	return resp, nil
}

func countHeaders(h http.Header) (n int) {
	for _, values := range h {
		n += len(values)
	}
	return n
}

// readable reports whether a body in this encoding can be read without decoding. net/http removes the header of a body
// that it decodes.
func readable(encoding string) bool { return encoding == "" || strings.EqualFold(encoding, "identity") }

// body returns the response's body with its limits. A response that is neither successful nor failed, such as a
// redirect without a location, has the limit of a failed one.
func (t *Tap) body(r *http.Request, resp *http.Response, cancel context.CancelFunc) *body {
	b := &body{ReadCloser: resp.Body, tap: t, ctx: r.Context(), cancel: cancel, most: t.limits.Body,
		server: t.req.Model.BaseURL}
	switch {
	case resp.StatusCode >= 400:
		b.limit, b.left = time.AfterFunc(errorBodyTime, cancel), t.limits.ErrorBody
		t.setFailure(resp)
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

// handleHeader calls OnResponse, and stops the SDK from retrying if the vendor requests a wait that is too long.
func (t *Tap) handleHeader(resp *http.Response) {
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

// reset drops the failure of the previous attempt.
func (t *Tap) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = nil
}

func (t *Tap) setFailure(resp *http.Response) {
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
