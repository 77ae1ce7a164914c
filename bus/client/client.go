package client

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Client is a way to the sessions of a deployment. All methods may be called concurrently.
type Client struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	api      string // prefix of the subjects of the JetStream API
	subjects schemas.Subjects
	o        Options
	owned    bool
	kept     int // messages of a live feed that wait for a slow reader
}

// Connect connects to one server or several, their URLs separated by commas. An empty url is that of [Options].Context,
// and without one nats://127.0.0.1:4222. A server that cannot be reached, or refuses the client, is an error at once; a
// connection that is lost later is made again for ever. No error or log line has credentials. The caller has to
// [Client.Close] the client.
func Connect(url string, o Options) (*Client, error) {
	if o.Context != "" {
		inContext, of, err := dial.ReadContext(o.Context)
		if err != nil {
			return nil, fmt.Errorf("client: %w", err)
		}
		url, o.Dial = cmp.Or(url, inContext), o.Dial.Or(of)
	}
	url, o = cmp.Or(url, nats.DefaultURL), o.withDefaults()
	opts, err := o.natsOptions()
	if err = errors.Join(err, dial.CheckServers(url)); err != nil {
		return nil, fmt.Errorf("client: connect to %s: %w", dial.Redact(url), err)
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, fmt.Errorf("client: connect to %s: %w", dial.Redact(url), err)
	}
	c, err := New(nc, o)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c.owned = true
	return c, nil
}

// New returns a client on a connection of the caller's, which has to outlive it and should reconnect for ever. The
// options of the connection itself are ignored.
func New(nc *nats.Conn, o Options) (*Client, error) {
	subjects, err := schemas.NewSubjects(o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	js, err := o.Dial.JetStream(nc)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Client{nc: nc, js: js, api: natsio.APIPrefix(js), subjects: subjects, o: o.withDefaults(),
		kept: liveMessages}, nil
}

// Close closes the connection that [Connect] made; one that was given to [New] stays open. Loops that follow something
// end with an error that wraps [nats.ErrConnectionClosed].
func (c *Client) Close() {
	if c.owned {
		c.nc.Close()
	}
}

// NATS is the connection. It stays the client's.
func (c *Client) NATS() *nats.Conn { return c.nc }

// Subjects is the grammar of subjects below the client's prefix.
func (c *Client) Subjects() schemas.Subjects { return c.subjects }

// Session returns a handle of a session, which need not exist yet. It makes no request; an illegal id is an error of
// the handle's methods, one that wraps [schemas.ErrSubject].
func (c *Client) Session(id string) *Session { return &Session{c: c, id: id} }
