package observe

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConnections limits the open connections of an HTTP server: each takes a descriptor and some memory, and anybody
// who reaches the port may open them. WebSockets do not count here; package natsws limits them.
const maxConnections = 1024

// connectionsOf returns the limit for a process that may open so many files. Three quarters are for everything else:
// streams of an embedded server that could not open a file stay broken until the process starts again.
func connectionsOf(files uint64) int { return int(min(maxConnections, max(files/4, 1))) }

// connections limits the connections of an HTTP server. For a connection beyond the limit it closes the one that has
// waited longest for its client. A connection whose request has not arrived whole, that has sent nothing yet, or whose
// client does not read the answer, waits like an idle one, so silent clients do not keep others out. If none waits, it
// closes the new connection.
type connections struct {
	most int

	mu   sync.Mutex
	open map[net.Conn]time.Time // since when it waits for its client; zero while a request that has arrived is handled
}

// limit limits the connections of a server. It is called before the server serves.
func limit(server *http.Server, most int) *connections {
	c := &connections{most: most, open: map[net.Conn]time.Time{}}
	type key struct{}
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, key{}, conn)
	}
	server.ConnState = c.track
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(key{}).(net.Conn)
		arrived := func() { c.since(conn, time.Time{}) }
		if r.Body == nil || r.Body == http.NoBody {
			arrived()
		} else {
			r = r.WithContext(r.Context()) // a copy: the server looks at the body of its own, too
			r.Body = &body{r.Body, arrived}
		}
		defer func() { c.since(conn, time.Now()) }() // the server still waits for what the handler has not read
		handler.ServeHTTP(&response{ResponseWriter: w, control: http.NewResponseController(w), limit: acceptTime,
			writing: func(begins bool) {
				if begins {
					c.since(conn, time.Now())
				} else {
					arrived()
				}
			}}, r)
	})
	return c
}

// A body of a request calls arrived at its end.
type body struct {
	io.ReadCloser
	arrived func()
}

func (b *body) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); err != nil {
		b.arrived()
	}
	return n, err
}

// track is the server's ConnState.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	if surplus := c.record(conn, state); surplus != nil {
		_ = surplus.Close()
	}
}

// since records since when an open connection waits.
func (c *connections) since(conn net.Conn, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.open[conn]; ok {
		c.open[conn] = at
	}
}

// record returns the connection to close, or nil.
func (c *connections) record(conn net.Conn, state http.ConnState) (surplus net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew, http.StateIdle:
		c.open[conn] = time.Now()
	case http.StateActive: // a part of a request has arrived
		return nil
	default: // closed, or no HTTP any more
		delete(c.open, conn)
	}
	if len(c.open) <= c.most {
		return nil
	}
	surplus = conn
	var oldest time.Time
	for other, since := range c.open {
		if other != conn && !since.IsZero() && (oldest.IsZero() || since.Before(oldest)) {
			surplus, oldest = other, since
		}
	}
	delete(c.open, surplus)
	return surplus
}
