package mcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// postHeader numbers the HTTP requests under way; what a client sends under this name is overwritten.
const postHeader = "Loopbus-Post"

const (
	maxBody   = 4 << 20  // bytes of a request
	maxBodies = 64 << 20 // bytes of all requests that are read or at work
)

// bodies bounds what the requests under way hold in memory. The zero value is ready.
type bodies struct{ held atomic.Int64 }

// hold reads the bodies of requests before next does. Full says whether there is no room for another session.
func (b *bodies) hold(full func() bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := r.ContentLength
		if size < 0 { // it is not said
			size = maxBody
		}
		if size > maxBody {
			http.Error(w, fmt.Sprintf("a request has at most %d bytes", maxBody), http.StatusRequestEntityTooLarge)
			return
		}
		defer b.held.Add(-size)
		if b.held.Add(size) > maxBodies || r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" && full() {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many requests or sessions at once", http.StatusServiceUnavailable)
			return
		}
		data, err := io.ReadAll(&counted{ReadCloser: r.Body, most: maxBody})
		if err != nil {
			http.Error(w, "the request was not read: "+err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		next.ServeHTTP(w, r)
	})
}

// posts connects calls with the HTTP requests they came by. The SDK lets a call outlive its request, for clients that
// come back for its stream; there is nothing to come back to here, so with the request's connection goes the call. The
// zero value is ready.
type posts struct {
	mu   sync.Mutex
	n    uint64
	live map[string]context.Context
}

// note numbers the requests that a handler is given.
func (p *posts) note(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.n++
		id := strconv.FormatUint(p.n, 10)
		if p.live == nil {
			p.live = map[string]context.Context{}
		}
		p.live[id] = r.Context()
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.live, id)
		}()
		r.Header.Set(postHeader, id)
		next.ServeHTTP(w, r)
	})
}

// follow returns a context that also ends with the request that a call came by, if there is one. end releases it.
func (p *posts) follow(ctx context.Context, extra *sdk.RequestExtra) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	if extra == nil || extra.Header == nil {
		return ctx, cancel
	}
	p.mu.Lock()
	request := p.live[extra.Header.Get(postHeader)]
	p.mu.Unlock()
	if request == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(request, cancel)
	return ctx, func() { stop(); cancel() }
}
