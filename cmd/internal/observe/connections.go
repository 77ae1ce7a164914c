package observe

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConnections limits the open connections of an HTTP server: each takes a descriptor and some memory, and anybody
// who reaches the port may open them. WebSockets do not count here; package natsws limits them.
const maxConnections = 1024

// connections limits the connections of an HTTP server. For a connection beyond the limit it closes the one that has
// been idle longest, or the new one if none is idle.
type connections struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]time.Time // since when it is idle; zero while it is not
}

// track is the server's ConnState.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	if surplus := c.record(conn, state); surplus != nil {
		_ = surplus.Close()
	}
}

// record returns the connection to close, or nil.
func (c *connections) record(conn net.Conn, state http.ConnState) (surplus net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew, http.StateActive:
		c.open[conn] = time.Time{}
	case http.StateIdle:
		c.open[conn] = time.Now()
	default: // closed, or no HTTP any more
		delete(c.open, conn)
	}
	if len(c.open) <= c.most {
		return nil
	}
	surplus = conn
	var oldest time.Time
	for other, since := range c.open {
		if !since.IsZero() && (oldest.IsZero() || since.Before(oldest)) {
			surplus, oldest = other, since
		}
	}
	delete(c.open, surplus)
	return surplus
}
