// Package limit limits requests to providers (backpressure): the number of concurrent requests, the requests per
// minute, and none while a provider asks for a pause. Waiting requests are served round-robin by session, so that a
// session with many requests does not block the others.
package limit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Defaults of [Options].
const (
	DefaultMaxPause   = time.Minute
	DefaultMaxWaiting = 10_000
)

// Options are the limits of each provider.
type Options struct {
	Concurrency int           // requests at once; 0 is no limit
	PerMinute   int           // requests begun within any minute; 0 is no limit
	MaxPause    time.Duration // the longest pause that a provider is granted; 0 is DefaultMaxPause
	MaxWaiting  int           // requests that may wait, over all sessions; 0 is DefaultMaxWaiting
}

// Limiter enforces the limits. It is safe for concurrent use and starts no goroutine.
type Limiter struct {
	o Options

	mu        sync.Mutex
	providers map[string]*provider
}

// New returns a limiter with the same limits for every provider.
func New(o Options) *Limiter {
	if o.MaxPause == 0 {
		o.MaxPause = DefaultMaxPause
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = DefaultMaxWaiting
	}
	return &Limiter{o: o, providers: map[string]*provider{}}
}

// Acquire waits for a slot and returns the function that releases it. It returns the context's error when ctx ends,
// and another error at once if too many requests are waiting.
func (l *Limiter) Acquire(ctx context.Context, providerID, session string) (done func(), err error) {
	l.mu.Lock()
	p := l.provider(providerID)
	if p.queue.waiting >= l.o.MaxWaiting {
		l.mu.Unlock()
		return nil, schemas.NewFailure(schemas.FailureRateLimited,
			fmt.Sprintf("provider %s: %d requests wait already: too many requests", providerID, l.o.MaxWaiting))
	}
	w := &waiter{session: session, ready: make(chan struct{})}
	p.queue.push(w)
	p.serve(l.o)
	l.mu.Unlock()
	select {
	case <-w.ready:
		return sync.OnceFunc(func() { l.release(p) }), nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.queue.remove(w) { // it got its slot at the same moment
		p.active--
		p.serve(l.o)
	}
	return nil, ctx.Err()
}

// Throttled makes the provider's requests wait for the pause that it asked for, at most MaxPause. Requests in
// progress continue.
func (l *Limiter) Throttled(providerID string, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.provider(providerID)
	if until := time.Now().Add(min(pause, l.o.MaxPause)); until.After(p.paused) {
		p.paused = until
	}
}

func (l *Limiter) provider(id string) *provider {
	p := l.providers[id]
	if p == nil {
		p = &provider{l: l}
		l.providers[id] = p
	}
	return p
}

func (l *Limiter) release(p *provider) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.active--
	p.serve(l.o)
}

// provider is the state of a provider. The limiter's lock guards it.
type provider struct {
	l      *Limiter
	queue  queue
	active int         // requests that have a slot
	begun  []time.Time // when the requests of the last minute began, oldest first; nil without PerMinute
	paused time.Time   // when the pause that the provider requested ends
	timer  *time.Timer // calls serve when a request may begin
}

// serve gives slots to waiting requests, round-robin by session, within the limits. If a request has to wait for a
// pause or for PerMinute, serve sets the timer.
func (p *provider) serve(o Options) {
	for p.queue.waiting > 0 && (o.Concurrency == 0 || p.active < o.Concurrency) {
		now := time.Now()
		if at := p.notBefore(o, now); at.After(now) {
			p.wakeAt(at.Sub(now))
			return
		}
		p.active++
		if o.PerMinute > 0 {
			p.begun = append(p.begun, now)
		}
		close(p.queue.pop().ready)
	}
}

// notBefore returns when the next request may begin.
func (p *provider) notBefore(o Options, now time.Time) time.Time {
	at := p.paused
	if o.PerMinute == 0 {
		return at
	}
	for len(p.begun) > 0 && now.Sub(p.begun[0]) >= time.Minute {
		p.begun = p.begun[1:]
	}
	if len(p.begun) >= o.PerMinute {
		if free := p.begun[len(p.begun)-o.PerMinute].Add(time.Minute); free.After(at) {
			at = free
		}
	}
	return at
}

func (p *provider) wakeAt(in time.Duration) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(in, func() {
		p.l.mu.Lock()
		defer p.l.mu.Unlock()
		p.serve(p.l.o)
	})
}
