// Package vendortest is a vendor for the tests of API packages: an HTTP server on loopback that records its requests.
package vendortest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// A Vendor sends the same response to every request.
type Vendor struct {
	URL string

	mu   sync.Mutex
	sent []Sent
}

// Sent is a request that a vendor received.
type Sent struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Serve starts a vendor that responds with this body. It stops when the test ends.
func Serve(tb testing.TB, contentType string, body []byte) *Vendor {
	v := new(Vendor)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		v.mu.Lock()
		v.sent = append(v.sent, Sent{r.URL.EscapedPath(), r.Header.Clone(), raw})
		v.mu.Unlock()
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	v.URL = s.URL
	return v
}

// Sent returns the requests received so far.
func (v *Vendor) Sent() []Sent {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sent
}

// Client returns a client with its own transport. Its idle connections are closed when the test ends.
func Client(tb testing.TB) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	tb.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Final reads a stream to its end and returns its message.
func Final(tb testing.TB, ctx context.Context, stream providers.StreamFunc,
	req *providers.Request) (m *schemas.AssistantMessage) {
	tb.Helper()
	for e, err := range stream(ctx, req) {
		if err != nil {
			tb.Fatalf("the iterator yielded the error %v", err)
		}
		if e.Terminal() {
			m = e.Message
		}
	}
	if m == nil {
		tb.Fatal("no final message")
	}
	return m
}
