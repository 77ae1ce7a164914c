package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/tools/mcp/internal/wire"
)

const (
	maxAnswers   = 64               // answers to the server's requests that it has not accepted yet
	smallAnswer  = 256 << 10        // bytes
	largeAnswers = 2                // answers with more that are read at once
	maxRefusal   = 1 << 20          // bytes of the body of an error response
	maxHeader    = 64 << 10         // bytes of a response's headers
	maxHeaders   = 256              // of a response: tiny ones take fifteen times their size for as long as it is read
	maxRedirects = 10               // of one request, all of them to the same origin
	streamAgain  = time.Second      // least time before an ended stream is requested again
	silence      = 15 * time.Second // of an HTTP/2 connection before a PING, and then before it is closed
	ahead        = 64 << 10         // bytes that HTTP/2 takes of a response before they are read; the default is 4 MiB
	aheadOfAll   = 2048 * ahead     // of all responses: those that wait for their turn to be read stop no others
)

// httpLink returns a link over HTTP. Its requests end when life ends. It does not follow redirects to another origin
// than the URL's. The SDK knows only the origin, because it quotes its URL in errors.
func (b *Bridge) httpLink(life context.Context, end func(), sift wire.Sift) link {
	at, _ := url.Parse(b.o.Server.URL) // was checked
	inner := newTransport()
	open := newConns()
	inner.DialContext = open.dial(inner.DialContext)
	outer := &httpTransport{life: life, at: at, inner: &http.Client{Transport: inner, CheckRedirect: sameOrigin},
		headers: b.o.Server.Headers, patience: b.o.WriteTimeout, log: b.log, sift: sift, end: end,
		gate: wire.NewGate(smallAnswer, largeAnswers)}
	return link{
		transport: &sdk.StreamableClientTransport{Endpoint: at.Scheme + "://" + at.Host,
			HTTPClient: &http.Client{Transport: outer}},
		end:       open.closeAll,
		lastWords: func() string { return "" },
	}
}

// newTransport returns the transport of a session.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = maxHeader
	t.DisableCompression = true // a few bytes of a stream could take as much time to decode as many
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence, WriteByteTimeout: 2 * silence,
		MaxReceiveBufferPerStream: ahead, MaxReceiveBufferPerConnection: aheadOfAll}
	return t
}

func sameOrigin(r *http.Request, before []*http.Request) error {
	if home := before[0].URL; r.URL.Scheme != home.Scheme || r.URL.Host != home.Host {
		return fmt.Errorf("it redirects to another origin, %s://%s, which is not followed", r.URL.Scheme, r.URL.Host)
	}
	if len(before) >= maxRedirects {
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	}
	return nil
}

// httpTransport sends requests with more headers to the server's URL, and limits the size and time of responses. Each
// session has its own.
type httpTransport struct {
	life     context.Context // of the session: no request outlives it
	at       *url.URL
	inner    *http.Client
	headers  map[string]string
	patience time.Duration // for the body of a failure, and the headers of a stream
	log      *slog.Logger
	sift     wire.Sift // of streams
	gate     *wire.Gate

	end func() // ends life

	asked   atomic.Bool  // a stream was requested
	answers atomic.Int64 // answers to the server's requests that it has not accepted yet
}

// RoundTrip sends a modified copy of the request.
func (t *httpTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(t.life, cancel)
	end := func() { stop(); cancel() }
	sent := r.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { setSent(ctx) }}))
	for name, value := range t.headers {
		sent.Header.Set(name, value)
	}
	sent.URL = t.at
	var resp *http.Response
	var err error
	if isAnswer(r) {
		defer t.answers.Add(-1)
		if t.answers.Add(1) > maxAnswers {
			if t.life.Err() == nil {
				t.log.Warn("the server asks more than it takes answers to, the session is given up", "most", maxAnswers)
			}
			t.end()
		}
	}
	if r.Method == http.MethodGet {
		resp, err = t.stream(sent, cancel)
	} else {
		resp, err = t.send(sent)
	}
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = t.bounded(ctx, resp, end)
	return resp, nil
}

// send sends a request and follows redirects. The error has no URL.
func (t *httpTransport) send(r *http.Request) (*http.Response, error) {
	resp, err := t.inner.Do(r)
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err == nil && countHeaders(resp.Header) > maxHeaders {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("a response has more than %d headers", maxHeaders)
	}
	return resp, err
}

func countHeaders(h http.Header) (n int) {
	for _, values := range h {
		n += len(values)
	}
	return n
}

// isAnswer reports whether the body of a request is an answer to a request of the server.
func isAnswer(r *http.Request) bool {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	var m struct{ Method string }
	return json.NewDecoder(body).Decode(&m) == nil && m.Method == ""
}

// stream requests a stream of events. If the first stream is not opened in time, or the session has ended, it returns
// the response of a server without streams: on an error the SDK would retry for a time that nothing can shorten.
func (t *httpTransport) stream(r *http.Request, cancel func()) (*http.Response, error) {
	first := !t.asked.Swap(true)
	if !first {
		select {
		case <-time.After(streamAgain):
		case <-r.Context().Done():
		}
	}
	timer := time.AfterFunc(t.patience, cancel)
	resp, err := t.send(r)
	late := !timer.Stop()
	if err == nil && !late || !first && t.life.Err() == nil {
		return resp, err
	}
	if err == nil {
		_ = resp.Body.Close()
	}
	if t.life.Err() == nil {
		t.log.Warn("the server's stream of notifications did not come, changes of its list go unnoticed")
	}
	return &http.Response{Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// bounded returns the body of a response, with limits. A body that is not a stream of events is one
// message. The body of an error response is never treated as a stream, because the SDK reads all of it during the call.
func (t *httpTransport) bounded(ctx context.Context, resp *http.Response, end func()) io.ReadCloser {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // an invalid type is not a stream
	switch failed := resp.StatusCode < 200 || resp.StatusCode > 299; {
	case failed:
		timer := time.AfterFunc(t.patience, end)
		return wire.Counted(&ending{resp.Body, func() { timer.Stop(); end() }}, wire.Whole, maxRefusal)
	case media == "text/event-stream":
		return wire.Sifted(t.gate.Gated(ctx, &ending{resp.Body, end}, wire.Events, wire.MaxMessage), t.sift)
	default:
		return t.gate.Gated(ctx, &ending{resp.Body, end}, wire.Whole, wire.MaxMessage)
	}
}

// ending is a body that calls a function when it is closed.
type ending struct {
	io.ReadCloser
	end func()
}

// Close closes the body.
func (e *ending) Close() error {
	err := e.ReadCloser.Close()
	e.end()
	return err
}
