package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const drainTimeout = 5 * time.Second // of Close, for each connection

// ConnOptions configures [Connect]. Either URL or InProcess is needed; the rest may stay empty.
type ConnOptions struct {
	// URL names one server or several of a cluster, separated by commas.
	URL string
	// InProcess is a server of this process, see package embedded, to connect to instead.
	InProcess nats.InProcessConnProvider
	// Name is shown in the server's list of connections.
	Name string
	// Prefix of every subject, see [schemas.NewSubjects].
	Prefix string
	// Dial says as whom to connect and how, and where JetStream is.
	Dial dial.Settings
	// Logger gets a line when the connection is lost and when it is back; nil discards.
	Logger *slog.Logger
}

// Conn is a process's way to NATS. It holds two connections: one for the log ([Conn.Events]), on which nothing is
// buffered while the server is away, so that an append that failed is not stored later behind its writer's back; and
// one for everything else. Both reconnect for ever. All methods may be called concurrently.
type Conn struct {
	nc, eventsNC *nats.Conn
	js, events   jetstream.JetStream
	subjects     schemas.Subjects
	closed       [2]chan struct{}
}

// Connect connects, trying again until ctx ends while no server can be reached. Whatever a server refuses is an
// error at once. No error or log line contains credentials. The caller has to [Conn.Close] the connection.
func Connect(ctx context.Context, o ConnOptions) (*Conn, error) {
	subjects, err := schemas.NewSubjects(o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("bus: connect: %w", err)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("bus: connect: %w", err)
	}
	c := &Conn{subjects: subjects}
	if c.nc, c.closed[0], err = open(ctx, o, o.Name); err != nil {
		return nil, err
	}
	c.eventsNC, c.closed[1], err = open(ctx, o, o.Name+"/events", nats.ReconnectBufSize(-1))
	if err != nil {
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

// NATS is the connection for commands, tools, updates and requests.
func (c *Conn) NATS() *nats.Conn { return c.nc }

// JetStream is JetStream on [Conn.NATS].
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// Events is JetStream on the connection for the log.
func (c *Conn) Events() jetstream.JetStream { return c.events }

// Subjects is the grammar below the connection's prefix.
func (c *Conn) Subjects() schemas.Subjects { return c.subjects }

// Connected reports whether both connections are up at this moment.
func (c *Conn) Connected() bool { return c.nc.IsConnected() && c.eventsNC.IsConnected() }

// Close sends what is buffered, lets subscriptions finish what they have, and closes both connections. It takes a few
// seconds at most and may be called more than once.
func (c *Conn) Close() {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain(c.nc, c.closed[0])
	}()
	drain(c.eventsNC, c.closed[1])
	<-drained
}

func drain(nc *nats.Conn, closed <-chan struct{}) {
	if err := nc.Drain(); err != nil {
		nc.Close() // not connected: there is nobody to drain to
	}
	timeout := time.NewTimer(drainTimeout + time.Second)
	defer timeout.Stop()
	select {
	case <-closed:
	case <-timeout.C:
		nc.Close()
	}
}

// check looks for what says where to connect.
func (o ConnOptions) check() error {
	if (o.URL == "") == (o.InProcess == nil) {
		return errors.New("either a URL or a server of this process is needed")
	}
	return dial.CheckServers(o.URL)
}

// where names the servers for an error, without credentials.
func (o ConnOptions) where() string {
	if o.InProcess != nil {
		return "the server of this process"
	}
	return dial.Redact(o.URL)
}

// open makes one connection. The channel it returns is closed when the connection is, for good.
func open(ctx context.Context, o ConnOptions, name string, more ...nats.Option) (*nats.Conn, chan struct{}, error) {
	opts, err := o.Dial.Options(name, o.Logger)
	if err != nil {
		return nil, nil, fmt.Errorf("bus: connect: %w", err)
	}
	closed := make(chan struct{})
	opts = append(opts, nats.DrainTimeout(drainTimeout), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if o.InProcess != nil {
		opts = append(opts, nats.InProcessServer(o.InProcess))
	}
	opts = append(opts, more...)
	for {
		nc, err := nats.Connect(o.URL, opts...)
		if err == nil {
			return nc, closed, nil
		}
		if !unreachable(err) || !natsio.Wait(ctx, natsio.RetryWait) {
			return nil, nil, fmt.Errorf("bus: connect to %s: %w", o.where(), err)
		}
	}
}

// unreachable reports whether a server may yet come up; anything else would be answered the same the next time.
func unreachable(err error) bool {
	var network *net.OpError // not net.Error, which a missing file is too
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF) ||
		errors.As(err, &network) && network.Op != "remote error" // that one is TLS
}
