package client

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/shares"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
)

// Client gives access to the sessions of one loopbus deployment. Its methods are safe for concurrent use.
type Client struct {
	nc           *nats.Conn
	js           jetstream.JetStream
	api          string // prefix of JetStream API subjects
	subjects     schemas.Subjects
	o            Options
	owned        bool // Close closes nc
	pendingLimit int  // messages of a live feed that wait for a slow reader
	ahead        *shares.Shares
	feeds        feeds
	loading      *turns.Turns[string] // bytes of payloads, by session, and "" for all
	checkEvery   time.Duration        // between two checks of a log for messages that did not arrive live
}

// Connect connects to one or more servers, given as URLs separated by commas. If url is empty, it uses the URL of
// [Options].Context, and without a context nats://127.0.0.1:4222.
//
// Connect fails at once if no server can be reached or the server refuses the client. After that, the client
// reconnects for ever. Errors and log lines contain no credentials. The caller must [Client.Close] the client.
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

// New returns a client that uses an existing connection. The caller keeps ownership of nc, must keep it open while
// the client is in use, and should configure it to reconnect for ever. New ignores the options that configure a
// connection.
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
		pendingLimit: liveMessages, ahead: shares.New(maxAhead), loading: turns.New[string](maxLoading),
		feeds: feeds{bySubject: map[string]*feed{}}, checkEvery: lastCheck}, nil
}

// Close closes the connection if [Connect] made it; a connection passed to [New] stays open. Iterators that are
// following something end with an error that wraps [nats.ErrConnectionClosed].
func (c *Client) Close() {
	if c.owned {
		c.nc.Close()
	}
}

// NATS returns the client's connection. The client keeps ownership of it.
func (c *Client) NATS() *nats.Conn { return c.nc }

// Subjects returns the subject grammar for the client's prefix.
func (c *Client) Subjects() schemas.Subjects { return c.subjects }

// Session returns a handle of the session with the given id, which need not exist yet. It makes no request. If the id
// is invalid, the methods of the handle return an error that wraps [schemas.ErrSubject].
func (c *Client) Session(id string) *Session { return &Session{c: c, id: id} }
