// Package keycache keeps the API key of each provider until it expires, and lets all who need a key at the same time
// share a request for it. Keys without an expiry are requested before every model call: requested one by one, they
// would come ever later the more sessions there are.
package keycache

import (
	"context"
	"sync"
	"time"
)

// Cache holds keys by provider. The zero value is an empty cache. Its methods may be called concurrently.
type Cache struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// A Request gets a provider's key, and until when the key may be reused; the zero time means that it must not be
// reused.
type Request func(ctx context.Context) (key string, until time.Time, err error)

// entry is what is known of a provider's key. At most one request is in flight.
type entry struct {
	key      string
	until    time.Time
	inFlight bool
	next     *flight // has not begun; nil if nobody waits for it
}

// flight is a request that several callers wait for. key and err may be read once done is closed.
type flight struct {
	request Request
	ctx     context.Context
	cancel  context.CancelFunc
	waiting int // callers
	done    chan struct{}
	key     string
	err     error
}

// Key returns the provider's key from the cache, or from a request that begins after Key was called. It waits for one
// request of others at most; if that fails it fails, too, because the one who is asked may be silent. If ctx ends
// before that, Key returns the cause. A request for which nobody waits any more is canceled. The request that is made
// is that of one of the callers, so all have to give equal ones.
func (c *Cache) Key(ctx context.Context, provider string, request Request) (string, error) {
	c.mu.Lock()
	e := c.entry(provider)
	if e.key != "" && time.Now().Before(e.until) {
		defer c.mu.Unlock()
		return e.key, nil
	}
	f := e.next
	if f == nil {
		f = &flight{request: request, done: make(chan struct{})}
		f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		e.next = f
	}
	f.waiting++
	c.begin(e)
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.key, f.err
	case <-ctx.Done():
		c.leave(e, f)
		return "", context.Cause(ctx)
	}
}

// begin starts the next request unless one is in flight. The caller holds the lock.
func (c *Cache) begin(e *entry) {
	f := e.next
	if e.inFlight || f == nil {
		return
	}
	e.inFlight, e.next = true, nil
	go func() {
		key, until, err := f.request(f.ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		e.inFlight = false
		f.end(key, err)
		if err == nil {
			e.key, e.until = key, until
		}
		abandoned := f.waiting == 0 // then the error is that of the cancellation
		if next := e.next; next != nil && (err != nil && !abandoned || err == nil && key != "" && time.Now().Before(until)) {
			e.next = nil
			next.end(key, err)
		}
		c.begin(e)
	}()
}

// end gives all callers the outcome.
func (f *flight) end(key string, err error) {
	f.key, f.err = key, err
	f.cancel()
	close(f.done)
}

// leave ends the wait of one caller.
func (c *Cache) leave(e *entry, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if e.next == f {
		e.next = nil
	}
}

func (c *Cache) entry(provider string) *entry {
	e := c.entries[provider]
	if e == nil {
		if c.entries == nil {
			c.entries = map[string]*entry{}
		}
		e = new(entry)
		c.entries[provider] = e
	}
	return e
}
