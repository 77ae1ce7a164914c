package natsws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/loopbus/loopbus/bus/upgrade"
)

// Options configures [New]. Only Upstream is required.
type Options struct {
	Upstream Upstream
	// Origins are hosts, besides the requested one, whose pages may open a WebSocket; with the port if it is not the
	// default of http or https.
	Origins []string
	// JWTCookie names a cookie that contains the JWT of a bearer user. The bridge adds it to a CONNECT without
	// credentials. A proxy that authenticates users sets it; scripts of the page need not see it. "" means none.
	JWTCookie string
	// MaxConnections limits the concurrent connections of clients that the server has admitted, default 256, of which a
	// caller leaves as many free as it has. As many may exist that it has not admitted yet; the oldest of those makes room
	// for the next.
	MaxConnections int
	// DialTimeout limits the server's answer, default 5 s; FirstTimeout the client's first frame, default 10 s;
	// WriteTimeout the time for the client to accept each frame, default 10 s, and to answer a ping, which is sent
	// every PingInterval, default 30 s.
	DialTimeout, FirstTimeout, WriteTimeout, PingInterval time.Duration
	// Logger logs connections at level debug; nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.MaxConnections = cmp.Or(o.MaxConnections, 256)
	o.DialTimeout = cmp.Or(o.DialTimeout, 5*time.Second)
	o.FirstTimeout = cmp.Or(o.FirstTimeout, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	o.PingInterval = cmp.Or(o.PingInterval, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Bridge is an HTTP handler that accepts WebSockets. It refuses pages from other hosts than the requested one; the
// handler in front of it must check that the requested host is this site's (package bus/web does).
type Bridge struct {
	o      Options
	places *upgrade.Places
	stop   chan struct{} // closed to end all connections

	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup
}

// New returns a bridge. The caller must [Bridge.Close] it.
func New(o Options) *Bridge {
	o = o.withDefaults()
	return &Bridge{o: o, places: upgrade.NewPlaces(o.MaxConnections, o.MaxConnections), stop: make(chan struct{})}
}

// Close ends all connections with the close code for a server that goes away, and returns when they have ended. It
// may be called more than once.
func (b *Bridge) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stop)
	}
	b.mu.Unlock()
	b.open.Wait()
}

// AuthRequired reports whether the server requires credentials from every client.
func (b *Bridge) AuthRequired(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.DialTimeout)
	defer cancel()
	l, err := b.o.Upstream.dial(ctx)
	if err != nil {
		return false, fmt.Errorf("natsws: %w", err)
	}
	return l.info.AuthRequired, l.Close()
}

// enter counts a connection, unless the bridge is closed; if it returns true, b.open.Done must be called at the end.
func (b *Bridge) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.open.Add(1)
	}
	return !b.closed
}

// ServeHTTP upgrades the request to a WebSocket and carries it until one side ends. If the server cannot be reached,
// the status is 502.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !b.enter() {
		http.Error(w, errStopping.Error(), http.StatusServiceUnavailable)
		return
	}
	defer b.open.Done()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	silent := b.places.Wait(func() { cancel(errSilent) })
	defer b.places.Spoken(silent)
	var release func()
	defer func() {
		if release != nil {
			release()
		}
	}()
	dial, cancelDial := context.WithTimeout(ctx, b.o.DialTimeout)
	server, err := b.o.Upstream.dial(dial)
	cancelDial()
	if errors.Is(context.Cause(ctx), errSilent) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, errFull.Error(), http.StatusServiceUnavailable)
		return
	}
	if err != nil {
		b.o.Logger.Warn("cannot connect a WebSocket to NATS", "err", err)
		http.Error(w, "the NATS server cannot be reached", http.StatusBadGateway)
		return
	}
	defer server.Close()
	ws, end, err := upgrade.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: b.o.Origins})
	if err != nil {
		b.o.Logger.Debug("WebSocket upgrade failed", "err", err)
		return // Accept has answered
	}
	defer end()
	// Room for several messages of the largest size: a client may have buffered some while it waited.
	ws.SetReadLimit(4*max(server.info.MaxPayload, 1<<20) + controlLine)
	c := &carrier{o: b.o, ws: ws, end: end, server: server, jwt: cookie(r, b.o.JWTCookie)}
	c.admit = func() bool {
		b.places.Spoken(silent) // first: from here on it makes room for nobody
		caller := c.of(r.RemoteAddr)
		if !b.places.Take(caller) {
			return false
		}
		release = func() { b.places.Release(caller) }
		return true
	}
	b.o.Logger.Debug("WebSocket to NATS opened", "remote", r.RemoteAddr)
	err = c.carry(ctx, b.stop)
	b.o.Logger.Debug("WebSocket to NATS closed", "remote", r.RemoteAddr, "err", err)
}

func cookie(r *http.Request, name string) string {
	if name == "" {
		return ""
	}
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
