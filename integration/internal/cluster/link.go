package cluster

import (
	"errors"
	"io"
	"net"
	"sync"
)

// nowhere is the address that servers advertise to each other, so that they use their links only: no process listens
// there.
const nowhere = "127.0.0.1:1"

// link forwards connections from one server to another, unless it is cut.
type link struct {
	from, to int
	target   string
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// linksFrom opens a link from a server to each of the others, and returns the routes through these links.
func (c *Cluster) linksFrom(i int, routes []string) []string {
	c.tb.Helper()
	through := append([]string(nil), routes...)
	for j := range routes {
		if j == i {
			continue
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.tb.Fatal(err)
		}
		l := &link{from: i, to: j, target: routes[j], listener: listener, conns: map[net.Conn]bool{}}
		l.wg.Go(l.accept)
		c.tb.Cleanup(l.close)
		c.links = append(c.links, l)
		through[j] = listener.Addr().String()
	}
	return through
}

// Isolate cuts the links between a server and all others. Its clients still reach it.
func (c *Cluster) Isolate(i int) { c.sever(i, true) }

// Heal connects the server with the others again.
func (c *Cluster) Heal(i int) { c.sever(i, false) }

func (c *Cluster) sever(i int, cut bool) {
	for _, l := range c.links {
		if l.from == i || l.to == i {
			l.set(cut)
		}
	}
}

func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut = cut; cut {
		for conn := range l.conns {
			_ = conn.Close()
		}
	}
}

func (l *link) close() {
	_ = l.listener.Close()
	l.set(true)
	l.wg.Wait()
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		l.wg.Go(func() { l.pass(near) })
	}
}

// pass copies in both directions until either side or the link is closed.
func (l *link) pass(near net.Conn) {
	defer near.Close()
	if !l.enter(near) {
		return
	}
	defer l.leave(near)
	far, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer far.Close()
	if !l.enter(far) {
		return
	}
	defer l.leave(far)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
}

// enter returns false if the link is cut.
func (l *link) enter(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return false
	}
	l.conns[conn] = true
	return true
}

func (l *link) leave(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}
