package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/upgrade"
	"github.com/loopbus/loopbus/schemas"
)

// Pattern is the pattern to mount the handler at.
const Pattern = "GET /gateway"

// maxSilent limits the connections that have not connected by the protocol yet.
const maxSilent = 64

// Options configures [New]. The zero value is usable.
type Options struct {
	// Allowed reports whether a request is admitted with the token of its connect, "" for none. Nil admits everyone.
	Allowed func(r *http.Request, token string) bool
	// Load reads the state of sessions. Nil folds their logs from the first event.
	Load bridge.Loader
	// Views bounds what connections have in memory of sessions; share it among bridges. The default is one of
	// [bridge.MaxViewed] bytes.
	Views *bridge.Budget
	// Version is the server's version that clients see.
	Version string
	// MaxConnections limits concurrent connections, default 128. In addition, at most 64 may exist that have not
	// connected by the protocol yet; the oldest of those makes room for the next.
	MaxConnections int
	// TickInterval is the interval of heartbeats to clients of protocol 4, default 15 s. WriteTimeout limits the time
	// for a client to accept a frame, default 10 s; ReadTimeout the time for a frame that has begun to arrive, default a
	// minute; ConnectTimeout the time for its connect, default 10 s.
	TickInterval, WriteTimeout, ReadTimeout, ConnectTimeout time.Duration
	// Origins are hosts, besides the requested one, whose pages may open a WebSocket; with the port if it is not the
	// default of http or https.
	Origins []string
	// Logger records what could not be read, and connections that end for it; nil discards.
	Logger *slog.Logger
}

// Bridge is the handler. It refuses WebSockets of pages from other hosts than the requested one.
type Bridge struct {
	c       *client.Client
	o       Options
	places  *upgrade.Places
	budget  *bridge.Budget
	asked   *sharedApprovals
	stop    chan struct{}
	once    sync.Once
	open    sync.WaitGroup
	started time.Time
}

// New returns a bridge. The caller must [Bridge.Close] it before the client.
func New(c *client.Client, o Options) *Bridge {
	o.MaxConnections = cmp.Or(o.MaxConnections, 128)
	o.TickInterval = cmp.Or(o.TickInterval, 15*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, time.Minute)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 10*time.Second)
	o.Version = cmp.Or(o.Version, "0")
	o.Views = cmp.Or(o.Views, bridge.NewViews(bridge.MaxViewed))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Allowed == nil {
		o.Allowed = func(*http.Request, string) bool { return true }
	}
	return &Bridge{c: c, o: o, places: upgrade.NewPlaces(o.MaxConnections, maxSilent),
		budget: bridge.NewBudget(bridge.MaxHeld, maxValues),
		asked: &sharedApprovals{follow: func(ctx context.Context) iter.Seq2[client.Approval, error] {
			return c.ApprovalsOutlined(ctx, maxArgs, maxAllArgs)
		}}, stop: make(chan struct{}), started: time.Now()}
}

// Close ends all connections and returns when they have ended.
func (b *Bridge) Close() {
	b.once.Do(func() { close(b.stop) })
	b.open.Wait()
	b.asked.running.Wait()
}

// ServeHTTP serves a WebSocket until it ends.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := r.URL.Query().Get("session")
	after, now, err := stateVersion(r)
	switch {
	case session == "":
	case !b.o.Allowed(r, ""):
		http.Error(w, "the runner's token is missing or wrong", http.StatusUnauthorized)
		return
	case err != nil:
		bridge.Refuse(w, err)
		return
	case schemas.CheckSession(session) != nil:
		bridge.Refuse(w, schemas.CheckSession(session))
		return
	}
	select {
	case <-b.stop:
		http.Error(w, "the runner stops", http.StatusServiceUnavailable)
		return
	default:
	}
	if session != "" && !b.places.Take("") {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
		return
	}
	if session != "" {
		defer b.places.Release("")
	}
	b.open.Add(1)
	defer b.open.Done()
	ws, end, err := upgrade.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: b.o.Origins})
	if err != nil {
		return // Accept has answered
	}
	defer end()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	c := &conn{b: b, ws: ws, end: end, cancel: cancel, name: rand.Text()}
	defer c.close()
	go func() { // ends with the connection
		select {
		case <-b.stop:
			c.stopping()
		case <-ctx.Done():
		}
	}()
	if session != "" {
		c.project(ctx, b.c.Session(session), after, now)
		return
	}
	c.converse(ctx, r)
}

// stateVersion returns the last state that a client has seen, or that it wants to start now.
func stateVersion(r *http.Request) (after uint64, now bool, err error) {
	v := r.URL.Query().Get("stateVersion")
	if v == "" {
		return 0, true, nil
	}
	if after, err = strconv.ParseUint(v, 10, 53); err != nil {
		err = &bridge.RequestError{Reason: "stateVersion is not a sequence: " + strconv.Quote(v)}
	}
	return after, false, err
}
