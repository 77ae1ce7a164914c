// Package wire is a gateway between NATS clients and their server. It parses the protocol far enough to recognise each
// message, and forwards, drops or holds messages as the test chooses. So a test injects faults at the only place where
// a program has effects, and the program needs no code for it.
package wire

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Verdict is what the gateway does with a message.
type Verdict int

// The verdicts of a [Tap].
const (
	Pass   Verdict = iota // forward the message
	Probe                 // forward the message, and call the tap's Probed once the server has handled it
	Lose                  // drop the message
	Kill                  // drop the message, and all later data of all clients of this gateway
	Cut                   // drop the message and close all connections; clients may connect again
	Freeze                // hold the message, and all data of all clients in both directions, until [Gateway.Thaw]
)

// A Tap decides about the messages of a gateway's clients. The gateway calls its methods one at a time, in the order in
// which messages pass, and carries out each verdict before the next call. They must not call the gateway.
type Tap interface {
	// Sent is called before a message is forwarded to the server.
	Sent(m *Message) Verdict
	// Received is called before a message is forwarded to a client.
	Received(m *Message) Verdict
	// Probed is called once the server has handled a message for which Sent returned Probe.
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

// Listen starts a gateway on a free port of 127.0.0.1 for the server at target, host:port. The caller has to call
// [Gateway.Close].
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

// URL returns the URL to which clients connect.
func (g *Gateway) URL() string { return "nats://" + g.listener.Addr().String() }

// Dead returns a channel that is closed when the gateway is killed.
func (g *Gateway) Dead() <-chan struct{} { return g.dead }

// Kill drops all data from now on. The port stays in use until [Gateway.Close]: another gateway that got the port would
// accept the connections of the killed process, and bring it back to life.
func (g *Gateway) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kill()
}

// Freeze holds all data from now on.
func (g *Gateway) Freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = true
}

// Thaw ends a freeze and forwards the data that was held.
func (g *Gateway) Thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.frozen = false
	g.thawed.Broadcast()
}

// Await waits while the gateway is frozen, and returns false if it is dead. It is for actions of a program that send no
// message through the gateway but have to stop with it.
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

// await waits until the gateway is not frozen. The caller holds the lock.
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
	pings          []bool // unanswered pings, in order; true for the gateway's own. Guarded by the gateway's lock
}

// errOver ends a link that the gateway has closed.
var errOver = errors.New("wire: link closed")

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// pump reads one direction and forwards it, under the gateway's lock, until the connection or the gateway is closed.
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
	case Lose:
		return nil
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
