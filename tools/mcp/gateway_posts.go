package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/tools/mcp/internal/wire"
)

// postHeader contains the number of an HTTP request in progress. It overwrites a header of this name from a client.
const postHeader = "Loopbus-Post"

const (
	maxBody   = 4 << 20  // bytes of a request
	maxBodies = 64 << 20 // bytes of the bodies of all requests in progress

	// maxBatch is how many messages arrive together. Clients of the protocol versions before 2025-06-18 may send batches,
	// and the SDK begins with all of their requests at once. The official clients send none.
	maxBatch = 16

	maxNotification = 1 << 10 // bytes of the parameters of a client's notification

	// maxIntroduction is how many bytes of JSON a client says of itself: the parameters of initialize or, in later
	// protocol versions, the metadata of each request. The SDK keeps them as long as the session, an hour or more.
	maxIntroduction = 16 << 10
)

// bodies limits the memory of the bodies of requests in progress. The zero value is ready for use.
type bodies struct{ held atomic.Int64 }

// hold reads the body of each request into memory before it calls next. full reports whether there are as many sessions
// as allowed.
func (b *bodies) hold(full func() bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			r.Body = http.NoBody
			next.ServeHTTP(w, r)
			return
		}
		size := r.ContentLength
		if size < 0 { // unknown
			size = maxBody
		}
		if size > maxBody {
			http.Error(w, fmt.Sprintf("a request has at most %d bytes", maxBody), http.StatusRequestEntityTooLarge)
			return
		}
		defer func() { b.held.Add(-size) }()
		if b.held.Add(size) > maxBodies || r.Header.Get("Mcp-Session-Id") == "" && full() {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many requests or sessions at once", http.StatusServiceUnavailable)
			return
		}
		data, err := io.ReadAll(wire.Counted(r.Body, wire.Whole, maxBody))
		if err != nil {
			http.Error(w, "the request was not read: "+err.Error(), http.StatusBadRequest)
			return
		}
		b.held.Add(int64(len(data)) - size)
		size = int64(len(data))
		if err := checkBatch(data); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch data, _, err = wire.Sift(needed).Text(data); {
		case err != nil:
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		case data == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		next.ServeHTTP(w, r)
	})
}

// checkBatch returns an error if a body is a batch of too many messages, or begins as one but is no JSON.
func checkBatch(body []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		return nil
	}
	if !json.Valid(body) {
		return errors.New("malformed batch: it is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	_, _ = d.Token() // the bracket
	for n := 0; d.More(); n++ {
		if n == maxBatch {
			return fmt.Errorf("a batch has at most %d messages, and this one more: send them one by one", maxBatch)
		}
		var one json.RawMessage
		_ = d.Decode(&one)
	}
	return nil
}

// needed is a [wire.Sift] that leaves out notifications of clients that the server does not need: the SDK keeps them,
// without a limit, until they have been handled. Its error is for a request by which it would keep too much.
func needed(m jsonrpc.Message) (jsonrpc.Message, error) {
	r, ok := m.(*jsonrpc.Request)
	switch {
	case !ok:
		return m, nil
	case r.IsCall():
		return m, checkIntroduction(r)
	}
	used := r.Method == "notifications/initialized" || r.Method == "notifications/cancelled"
	if !used || len(r.Params) > maxNotification {
		return nil, nil
	}
	return m, nil
}

// checkIntroduction returns an error if a client says too much of itself with a request.
func checkIntroduction(r *jsonrpc.Request) error {
	if len(r.Params) <= maxIntroduction {
		return nil
	}
	said := r.Params
	if r.Method != "initialize" {
		var params struct {
			Meta json.RawMessage `json:"_meta"`
		}
		if json.Unmarshal(r.Params, &params) != nil {
			return nil // the SDK says what is wrong
		}
		said = params.Meta
	}
	if len(said) > maxIntroduction {
		return fmt.Errorf("a client says at most %d bytes of itself, in the parameters of initialize or in _meta",
			maxIntroduction)
	}
	return nil
}

// posts connects calls with the HTTP requests that they arrived in. The SDK lets a call outlive its request, for
// clients that resume its stream. This server cannot resume streams, so it cancels a call when the connection of its
// request is closed. The zero value is ready for use.
type posts struct {
	mu   sync.Mutex
	n    uint64
	live map[string]context.Context
}

// note numbers the requests and passes them to next.
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

// of returns the context of the HTTP request that a message arrived in; an ended one if the request has ended, and nil
// if there was none.
func (p *posts) of(extra *sdk.RequestExtra) context.Context {
	if extra == nil || extra.Header == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if request := p.live[extra.Header.Get(postHeader)]; request != nil {
		return request
	}
	return ended
}

// ended is the context of all requests that have ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// follow returns a context that also ends with the HTTP request of a call, if there is one. end releases it.
func (p *posts) follow(ctx context.Context, extra *sdk.RequestExtra) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	request := p.of(extra)
	if request == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(request, cancel)
	return ctx, func() { stop(); cancel() }
}
