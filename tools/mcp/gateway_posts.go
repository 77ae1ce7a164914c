package mcp

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// postHeader numbers the HTTP requests under way; what a client sends under this name is overwritten.
const postHeader = "Loopbus-Post"

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
