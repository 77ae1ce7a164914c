package dispatch

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
)

// link is a connection for what others could flood, which is opened when it is first needed.
type link struct {
	conn    *bus.Conn
	purpose string
	opening chan struct{} // has an element while the connection is opened

	mu     sync.Mutex
	nc     *nats.Conn
	closed bool
}

func newLink(c *bus.Conn, purpose string) *link {
	return &link{conn: c, purpose: purpose, opening: make(chan struct{}, 1)}
}

// open returns the connection, and opens it for the first that needs it. Others wait meanwhile, each until its own ctx
// ends. After an error the next one tries again.
func (l *link) open(ctx context.Context) (*nats.Conn, error) {
	select {
	case l.opening <- struct{}{}:
		defer func() { <-l.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if nc := l.opened(); nc != nil {
		return nc, nil
	}
	nc, err := l.conn.Open(ctx, l.purpose)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		nc.Close()
		return nil, errClosed
	}
	l.nc = nc
	return nc, nil
}

// opened returns the connection, nil if there is none.
func (l *link) opened() *nats.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nc
}

// close closes the connection, also one that is being opened.
func (l *link) close() {
	l.mu.Lock()
	nc := l.nc
	l.closed = true
	l.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
}
