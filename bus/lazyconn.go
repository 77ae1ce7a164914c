package bus

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// LazyConn is a connection for what others could flood ([Conn.Open]), which is opened when it is first needed. Its
// methods may be called concurrently.
type LazyConn struct {
	conn    *Conn
	purpose string
	opening chan struct{} // has an element while the connection is opened

	mu     sync.Mutex
	nc     *nats.Conn
	closed bool
}

// Lazy returns a LazyConn for a purpose, which is part of the connection's name. It has to be closed before c, or with
// it.
func (c *Conn) Lazy(purpose string) *LazyConn {
	return &LazyConn{conn: c, purpose: purpose, opening: make(chan struct{}, 1)}
}

// Open returns the connection, and opens it for the first that needs it. Others wait meanwhile, each until its own ctx
// ends; the error is its cause then. After an error the next one tries again. After [LazyConn.Close] the error is
// [nats.ErrConnectionClosed].
func (l *LazyConn) Open(ctx context.Context) (*nats.Conn, error) {
	select {
	case l.opening <- struct{}{}:
		defer func() { <-l.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if nc := l.Opened(); nc != nil {
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
		return nil, nats.ErrConnectionClosed
	}
	l.nc = nc
	return nc, nil
}

// Opened returns the connection, nil if there is none.
func (l *LazyConn) Opened() *nats.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nc
}

// Close closes the connection, also one that is being opened.
func (l *LazyConn) Close() {
	l.mu.Lock()
	nc := l.nc
	l.closed = true
	l.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
}
