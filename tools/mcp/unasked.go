package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/tools/mcp/internal/wire"
)

// maxRequestName is the largest size in bytes of the method and of the id of a server's request, which are kept until
// the server has taken the answer.
const maxRequestName = 1 << 10

// unasked reduces what a server says by itself in one session: the SDK keeps it, without a limit, until it has been
// handled. So progress is passed on as it is read, which makes a server wait that says more than is taken; requests
// lose their parameters, because none of them is granted; and other notifications are dropped.
type unasked struct {
	progress *progress
	heard    func()      // called for each message
	changed  atomic.Bool // the SDK has a notification that the list of tools has changed
}

// sift is a [wire.Sift].
func (u *unasked) sift(m jsonrpc.Message) (jsonrpc.Message, error) {
	u.heard()
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		return m, nil
	}
	id, _ := r.ID.Raw().(string)
	switch {
	case len(id) > maxRequestName || len(r.Method) > maxRequestName:
		return nil, fmt.Errorf("a request has a method or an id of more than %d bytes", maxRequestName)
	case r.IsCall():
	case r.Method == "notifications/progress":
		u.progress.tell(r.Params)
		return nil, nil
	case r.Method != "notifications/tools/list_changed" || u.changed.Swap(true):
		return nil, nil
	}
	return &jsonrpc.Request{ID: r.ID, Method: r.Method, Params: json.RawMessage(`{}`)}, nil
}

// siftedTransport is a transport whose connections return what sift returns.
type siftedTransport struct {
	sdk.Transport
	sift wire.Sift
}

// Connect implements [sdk.Transport].
func (t siftedTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &siftedConn{Connection: c, sift: t.sift, answers: make(chan struct{}, maxAnswers),
		closed: make(chan struct{})}, nil
}

type siftedConn struct {
	sdk.Connection
	sift    wire.Sift
	answers chan struct{} // has a token for each request of the server that has no answer yet
	once    sync.Once
	closed  chan struct{}
}

// Read returns the next message that is left. While the server does not take the answers to many requests, no more is
// read: each answer waits in goroutines of its own.
func (c *siftedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err == nil {
			m, err = c.sift(m)
		}
		if m == nil && err == nil {
			continue
		}
		if r, ok := m.(*jsonrpc.Request); err == nil && ok && r.IsCall() {
			select {
			case c.answers <- struct{}{}:
			case <-c.closed:
				return nil, io.EOF
			}
		}
		return m, err
	}
}

// Write implements [sdk.Connection].
func (c *siftedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if _, ok := m.(*jsonrpc.Response); ok {
		defer func() {
			select {
			case <-c.answers:
			default: // the answer to something else than a request that was read here
			}
		}()
	}
	return c.Connection.Write(ctx, m)
}

// Close also ends a Read that waits for answers to be taken.
func (c *siftedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
