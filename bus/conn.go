package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	dialTimeout   = 2 * time.Second        // of one attempt to connect
	reconnectWait = 250 * time.Millisecond // between two attempts of a lost connection, plus jitter
	drainTimeout  = 5 * time.Second        // of Close, for each connection
	pingInterval  = 10 * time.Second       // a dead peer is noticed after three
)

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
	// InboxPrefix of the subjects that replies come to; the default _INBOX is shared by all clients of an account.
	InboxPrefix string
	// Credentials, at most one kind: a .creds file, a file with an nkey seed, user and password, or a token.
	CredsFile    string
	NKeySeedFile string
	User         string
	Password     string
	Token        string
	// TLS, as PEM files: the authority to trust, and this client's certificate with its key.
	CAFile   string
	CertFile string
	KeyFile  string
	// Logger is told when the connection is lost and when it is back; nil discards.
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
// error at once. No error
// or log line contains credentials. The caller has to [Conn.Close] the connection.
func Connect(ctx context.Context, o ConnOptions) (*Conn, error) {
	subjects, err := schemas.NewSubjects(o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("bus: connect: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	opts, err := o.natsOptions()
	if err != nil {
		return nil, fmt.Errorf("bus: connect: %w", err)
	}
	c := &Conn{subjects: subjects}
	if c.nc, c.closed[0], err = dial(ctx, o, opts, o.Name); err != nil {
		return nil, err
	}
	c.eventsNC, c.closed[1], err = dial(ctx, o, append(opts, nats.ReconnectBufSize(-1)), o.Name+"/events")
	if err != nil {
		c.nc.Close()
		return nil, err
	}
	if c.js, err = jetstream.New(c.nc); err == nil {
		c.events, err = jetstream.New(c.eventsNC)
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

// dial makes one connection. The channel it returns is closed when the connection is, for good.
func dial(ctx context.Context, o ConnOptions, opts []nats.Option, name string) (*nats.Conn, chan struct{}, error) {
	closed := make(chan struct{})
	log := o.Logger.With("connection", name)
	opts = append(opts[:len(opts):len(opts)],
		nats.Name(name),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if err != nil { // nil when we close it ourselves
				log.Warn("connection to nats lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("connection to nats is back", "url", redactURL(nc.ConnectedUrl()))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("nats", "err", err, "subject", subject)
		}),
	)
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
