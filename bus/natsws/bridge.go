package natsws

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/loopbus/loopbus/bus/upgrade"
)

// Options configures [New]. Only Upstream is needed.
type Options struct {
	Upstream Upstream
	// Origins are the names of hosts, besides the one that is asked, whose pages may open a WebSocket.
	Origins []string
	// JWTCookie names a cookie with the JWT of a bearer user, which is made part of a CONNECT that has no credentials. A
	// proxy in front that logs people in sets it, and scripts of the page need not see it. "" is none.
	JWTCookie string
	// MaxConnections at a time, default 256. One more is answered with status 503.
	MaxConnections int
	// DialTimeout is for a server to answer, default 5 s; FirstTimeout for the client's first frame, default 10 s;
	// WriteTimeout for each frame to be taken by the client, default 10 s, and for it to answer a ping, which is sent
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

// Bridge is a handler that takes WebSockets. A page of another host than the one that is asked is refused; that the
// host is ours is for whoever mounts the bridge to check (package bus/web does).
type Bridge struct {
	o       Options
	slots   chan struct{}
	origins []string
	stop    chan struct{} // closed when all connections are to end

	mu     sync.Mutex
	closed bool
	open   sync.WaitGroup
}

// New returns a bridge. The caller has to [Bridge.Close] it.
func New(o Options) *Bridge {
	o = o.withDefaults()
	b := &Bridge{o: o, slots: make(chan struct{}, o.MaxConnections), stop: make(chan struct{})}
	for _, name := range o.Origins {
		b.origins = append(b.origins, name, name+":*")
	}
	return b
}

// Close ends all connections, with the close code that says that the server goes away, and returns when they have
// ended. It may be called more than once.
func (b *Bridge) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stop)
	}
	b.mu.Unlock()
	b.open.Wait()
}

// AuthRequired asks a server whether it wants credentials of everybody.
func (b *Bridge) AuthRequired(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.DialTimeout)
	defer cancel()
	l, err := b.o.Upstream.dial(ctx)
	if err != nil {
		return false, fmt.Errorf("natsws: %w", err)
	}
	return l.info.AuthRequired, l.Close()
}

// enter reports whether there is room for one more connection; leave has to be called when it ends.
func (b *Bridge) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	select {
	case b.slots <- struct{}{}:
		b.open.Add(1)
		return true
	default:
		return false
	}
}

func (b *Bridge) leave() {
	<-b.slots
	b.open.Done()
}

// ServeHTTP makes a WebSocket of the request and carries it until one side ends. A server that cannot be reached is
// status 502.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !b.enter() {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
		return
	}
	defer b.leave()
	dial, cancelDial := context.WithTimeout(r.Context(), b.o.DialTimeout)
	server, err := b.o.Upstream.dial(dial)
	cancelDial()
	if err != nil {
		b.o.Logger.Warn("no NATS server for a WebSocket", "err", err)
		http.Error(w, "the NATS server cannot be reached", http.StatusBadGateway)
		return
	}
	defer server.Close()
	ws, end, err := upgrade.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: b.origins})
	if err != nil {
		b.o.Logger.Debug("no WebSocket", "err", err)
		return // it has been answered
	}
	defer end()
	// What the server takes in one message, and what a client has gathered while it waited.
	ws.SetReadLimit(4*max(server.info.MaxPayload, 1<<20) + controlLine)
	c := &carrier{o: b.o, ws: ws, end: end, server: server, jwt: cookie(r, b.o.JWTCookie)}
	b.o.Logger.Debug("WebSocket to NATS begins", "remote", r.RemoteAddr)
	err = c.carry(b.stop)
	b.o.Logger.Debug("WebSocket to NATS ends", "remote", r.RemoteAddr, "err", err)
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
