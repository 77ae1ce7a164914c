package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// drainTimeout is how long Close waits for each connection to drain.
const drainTimeout = 5 * time.Second

// ConnOptions configures [Connect]. Exactly one of URL and InProcess is required; the other fields are optional.
type ConnOptions struct {
	// URL is the URL of a server, or the URLs of several servers of a cluster, separated by commas.
	URL string
	// InProcess is a server that runs in this process, see package embedded.
	InProcess nats.InProcessConnProvider
	// Name is shown in the server's list of connections.
	Name string
	// Prefix is the prefix of every subject, see [schemas.NewSubjects].
	Prefix string
	// Dial contains the credentials, the TLS settings and the JetStream domain.
	Dial dial.Settings
	// Logger logs when a connection is lost and when it is re-established; nil discards.
	Logger *slog.Logger
}

// Conn is a process's connection to NATS. It consists of two connections: one for the log ([Conn.Events]) and one for
// everything else. The connection for the log buffers nothing while it is disconnected, so that the server never stores
// an append after its writer has seen it fail. [Conn.Open] adds connections for what others could flood. All
// connections reconnect without a limit of attempts. All methods may be called concurrently.
type Conn struct {
	o            ConnOptions
	nc, eventsNC *nats.Conn
	js, events   jetstream.JetStream
	subjects     schemas.Subjects

	mu     sync.Mutex
	links  []link // all connections that were open when the last one was opened
	closed bool
}

// link is a connection and a channel that is closed once the connection is closed and does not reconnect any more.
type link struct {
	nc     *nats.Conn
	closed <-chan struct{}
}

// Connect connects to NATS. While no server can be reached, or a server is too busy to look at the credentials in time,
// it retries until ctx ends. If a server refuses the connection, it returns the error at once. No error or log line
// contains credentials. The caller must call [Conn.Close].
func Connect(ctx context.Context, o ConnOptions) (*Conn, error) {
	subjects, err := schemas.NewSubjects(o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("bus: connect: %w", err)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("bus: connect: %w", err)
	}
	c := &Conn{o: o, subjects: subjects}
	if c.nc, err = c.open(ctx, o.Name); err != nil {
		return nil, err
	}
	if c.eventsNC, err = c.open(ctx, o.Name+"/events", nats.ReconnectBufSize(-1)); err != nil {
		c.nc.Close()
		return nil, err
	}
	if c.js, err = o.Dial.JetStream(c.nc); err == nil {
		c.events, err = o.Dial.JetStream(c.eventsNC)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("bus: connect: %w", err)
	}
	return c, nil
}

// Open opens a further connection with the same options, for the purpose that its name has. The caller may close it;
// [Conn.Close] does. What others send to it cannot keep the rest of the process from its messages: a NATS server ends
// the connection that does not read fast enough. While no server can be reached, Open retries until ctx ends.
func (c *Conn) Open(ctx context.Context, purpose string) (*nats.Conn, error) {
	return c.open(ctx, c.o.Name+"/"+purpose)
}

func (c *Conn) open(ctx context.Context, name string, more ...nats.Option) (*nats.Conn, error) {
	nc, closed, err := open(ctx, c.o, name, more...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		nc.Close()
		return nil, fmt.Errorf("bus: connect: %w", nats.ErrConnectionClosed)
	}
	c.links = slices.DeleteFunc(c.links, func(l link) bool { return l.nc.IsClosed() })
	c.links = append(c.links, link{nc, closed})
	return nc, nil
}

// NATS returns the connection for commands, tools, updates and requests.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// JetStream returns JetStream on [Conn.NATS].
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// Events returns JetStream on the connection for the log.
func (c *Conn) Events() jetstream.JetStream { return c.events }

// Subjects returns the grammar of the subjects with the connection's prefix.
func (c *Conn) Subjects() schemas.Subjects { return c.subjects }

// Connected reports whether both connections of its own are connected at this moment.
func (c *Conn) Connected() bool { return c.nc.IsConnected() && c.eventsNC.IsConnected() }

// Close drains all connections and closes them: subscriptions process the messages that they have received, and
// buffered messages are sent. It takes a few seconds at most and may be called more than once.
func (c *Conn) Close() {
	c.mu.Lock()
	c.closed = true
	links := c.links
	c.mu.Unlock()
	var drained sync.WaitGroup
	for _, l := range links {
		drained.Go(func() { drain(l.nc, l.closed) })
	}
	drained.Wait()
}

func drain(nc *nats.Conn, closed <-chan struct{}) {
	if err := nc.Drain(); err != nil {
		nc.Close() // a connection that is not connected cannot drain
	}
	timeout := time.NewTimer(drainTimeout + time.Second)
	defer timeout.Stop()
	select {
	case <-closed:
	case <-timeout.C:
		nc.Close()
	}
}

// check checks that the options name exactly one place to connect to.
func (o ConnOptions) check() error {
	if (o.URL == "") == (o.InProcess == nil) {
		return errors.New("either a URL or a server in this process is required, and not both")
	}
	return dial.CheckServers(o.URL)
}

// where returns the servers for an error, without credentials.
func (o ConnOptions) where() string {
	if o.InProcess != nil {
		return "the server in this process"
	}
	return dial.Redact(o.URL)
}

// open opens one connection. It also returns a channel that is closed once the connection is closed and does not
// reconnect any more.
func open(ctx context.Context, o ConnOptions, name string, more ...nats.Option) (*nats.Conn, chan struct{}, error) {
	opts, err := o.Dial.Options(name, o.Logger)
	if err != nil {
		return nil, nil, fmt.Errorf("bus: connect: %w", err)
	}
	closed := make(chan struct{})
	opts = append(opts, nats.DrainTimeout(drainTimeout), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if o.InProcess != nil {
		opts = append(opts, nats.InProcessServer(dial.Limited(o.InProcess)))
	}
	opts = append(opts, more...)
	for {
		nc, err := nats.Connect(o.URL, opts...)
		if err == nil {
			return nc, closed, nil
		}
		if !passing(err) || !natsio.Wait(ctx, natsio.RetryWait) {
			return nil, nil, fmt.Errorf("bus: connect to %s: %w", o.where(), err)
		}
	}
}

// errBusy is what a NATS server answers if it did not come to look at the credentials in time (2 s by default).
var errBusy = errors.New("nats: authentication timeout")

// passing reports whether an error means that no server was reached, or that a server was too busy, so that a retry may
// succeed. With any other error a retry would fail in the same way.
func passing(err error) bool {
	var network *net.OpError // not net.Error: the error about a missing file is one too
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF) ||
		errors.Is(err, errBusy) ||
		errors.As(err, &network) && network.Op != "remote error" // a TLS alert of the server: it refused the connection
}
