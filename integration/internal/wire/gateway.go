// Package wire is a gateway between NATS clients and their server. It understands as much of the protocol as it takes
// to see each message, and loses, stops or lets pass what the test chooses. So what is done to a program is done to it
// at the only place where it has effects, and the program itself knows nothing of it.
package wire

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Verdict says what becomes of a message.
type Verdict int

// The verdicts of a [Tap].
const (
	Pass   Verdict = iota // goes on
	Probe                 // goes on; once the server has handled it, the tap's Probed is asked
	Kill                  // is lost, and nothing of any client of this gateway passes from then on
	Cut                   // is lost with every connection; clients may connect again
	Freeze                // waits, as does everything of every client, in both directions, until [Gateway.Thaw]
)

// A Tap sees the messages of a gateway's clients. Its methods are called one at a time and in the order in which things
// pass, the next not before what the verdict says is done. They must not call the gateway.
type Tap interface {
	// Sent is asked before a message goes to the server.
	Sent(m *Message) Verdict
	// Received is asked before a message goes to a client.
	Received(m *Message) Verdict
	// Probed is asked once the server has handled a message for which Sent said Probe.
	Probed() Verdict
}

// Gateway connects its clients with one server. All methods may be called concurrently.
type Gateway struct {
	listener net.Listener
	target   string
	tap      Tap
	dead     chan struct{}
	running  sync.WaitGroup

	mu     sync.Mutex
	thawed *sync.Cond
	links  map[*link]struct{}
	frozen bool
	killed bool
}

// Listen starts a gateway on a free port of 127.0.0.1 for the server at target, host:port. The caller has to
// [Gateway.Close] it.
func Listen(target string, tap Tap) (*Gateway, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("wire: listen: %w", err)
	}
	g := &Gateway{listener: l, target: target, tap: tap, dead: make(chan struct{}), links: map[*link]struct{}{}}
	g.thawed = sync.NewCond(&g.mu)
	g.running.Go(g.accept)
	return g, nil
}

// URL is where clients connect.
func (g *Gateway) URL() string { return "nats://" + g.listener.Addr().String() }

// Dead is closed when the gateway was killed.
func (g *Gateway) Dead() <-chan struct{} { return g.dead }

// Kill loses everything from now on, and for good. The port stays taken until [Gateway.Close]: another gateway that got
// it would have the killed process's connections, and bring it back to life.
func (g *Gateway) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kill()
}

// Freeze holds everything from now on.
func (g *Gateway) Freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = true
}

// Thaw ends a freeze: what was stopped passes.
func (g *Gateway) Thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = false
	g.thawed.Broadcast()
}

// Await waits while the gateway is frozen and reports false if it is dead. It is for what a program does that does not
// pass here and has to stop all the same.
func (g *Gateway) Await() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.await()
}

// Close kills the gateway and waits until all its goroutines have ended.
func (g *Gateway) Close() {
	g.Kill()
	_ = g.listener.Close()
	g.running.Wait()
}

// await waits until nothing is frozen. The caller holds the lock.
func (g *Gateway) await() bool {
	for g.frozen && !g.killed {
		g.thawed.Wait()
	}
	return !g.killed
}

func (g *Gateway) kill() {
	if g.killed {
		return
	}
	g.killed = true
	close(g.dead)
	g.cut()
	g.thawed.Broadcast()
}

func (g *Gateway) cut() {
	for l := range g.links {
		l.close()
	}
	clear(g.links)
}

func (g *Gateway) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", g.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{g: g, client: client, server: server}
		if !g.add(l) {
			l.close()
			continue
		}
		g.running.Go(func() { l.pump(client, l.up) })
		g.running.Go(func() { l.pump(server, l.down) })
	}
}

func (g *Gateway) add(l *link) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.killed {
		return false
	}
	g.links[l] = struct{}{}
	return true
}

// link is one client's connection.
type link struct {
	g              *Gateway
	client, server net.Conn
	pings          []bool // those without a pong so far, in order; true for our own. Guarded by the gateway's lock
}

// errOver ends a link that the gateway has closed.
var errOver = errors.New("wire: link closed")

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// pump reads one direction and passes it on, under the gateway's lock, until the connection or the gateway ends.
func (l *link) pump(from net.Conn, pass func(frame) error) {
	defer l.close()
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		l.g.mu.Lock()
		err = errOver
		if l.g.await() {
			err = pass(f)
		}
		l.g.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (l *link) up(f frame) error {
	if f.op == "PING" {
		l.pings = append(l.pings, false)
	}
	if f.body == nil {
		return l.write(l.server, f.raw)
	}
	switch v := l.g.tap.Sent(f.body); v {
	case Probe:
		l.pings = append(l.pings, true)
		return l.write(l.server, append(f.raw, "PING\r\n"...))
	default:
		return l.carryOut(v, l.server, f.raw)
	}
}

func (l *link) down(f frame) error {
	if f.op == "PONG" && len(l.pings) > 0 {
		ours := l.pings[0]
		if l.pings = l.pings[1:]; ours {
			return l.carryOut(l.g.tap.Probed(), l.client, nil)
		}
	}
	if f.body == nil {
		return l.write(l.client, f.raw)
	}
	return l.carryOut(l.g.tap.Received(f.body), l.client, f.raw)
}

func (l *link) carryOut(v Verdict, to net.Conn, raw []byte) error {
	switch v {
	case Kill:
		l.g.kill()
		return errOver
	case Cut:
		l.g.cut()
		return errOver
	case Freeze:
		l.g.frozen = true
		if !l.g.await() {
			return errOver
		}
	}
	return l.write(to, raw)
}

func (l *link) write(to net.Conn, raw []byte) error {
	_, err := to.Write(raw)
	return err
}
