package mcp

import (
	"context"
	"net"
	"sync"
)

// conns are the open connections of a session. An HTTP/2 connection whose server reads nothing does not end with its
// requests: it is closed with the session.
type conns struct {
	mu   sync.Mutex
	open map[*sessionConn]struct{} // nil after closeAll
}

type sessionConn struct {
	net.Conn
	of *conns
}

func newConns() *conns { return &conns{open: map[*sessionConn]struct{}{}} }

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dial returns a dial function whose connections are closed by closeAll.
func (c *conns) dial(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := &sessionConn{inner, c}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open == nil {
			_ = inner.Close()
			return nil, net.ErrClosed
		}
		c.open[conn] = struct{}{}
		return conn, nil
	}
}

func (c *sessionConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// closeAll closes the connections. None is opened afterwards.
func (c *conns) closeAll() {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for conn := range open {
		_ = conn.Conn.Close()
	}
}
