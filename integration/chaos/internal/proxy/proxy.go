// Package proxy forwards TCP connections between a client and a server, and can cut, stall and reset them.
package proxy

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy forwards TCP connections to one address. It closes a connection that it cannot forward. All methods may be
// called concurrently.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // both ends of every connection
	cut    bool
	closed bool
	flow   chan struct{} // closed while bytes are forwarded
}

// dialTimeout bounds how long a connection to the target may take.
const dialTimeout = 2 * time.Second

// New listens on a free port of 127.0.0.1 and forwards to target. The caller has to call [Proxy.Close].
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy to %s: %w", target, err)
	}
	p := &Proxy{target: target, listener: l, conns: map[net.Conn]struct{}{}, flow: make(chan struct{})}
	close(p.flow)
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address on which the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections and refuses new ones until [Proxy.Heal].
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.closeAll()
}

// Reset closes all connections. It still accepts new ones.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeAll()
}

// Stall keeps connections open and forwards no bytes in either direction until [Proxy.Heal].
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.flow) && !p.closed {
		p.flow = make(chan struct{})
	}
}

// Heal undoes Cut and Stall. Bytes that were stalled are forwarded.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	p.open()
}

// Close closes the listener and all connections, and waits for the proxy's goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.open()
	p.closeAll()
	p.mu.Unlock()
	p.listener.Close()
	p.running.Wait()
}

func (p *Proxy) open() {
	if !isClosed(p.flow) {
		close(p.flow)
	}
}

func (p *Proxy) closeAll() {
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(c) })
	}
}

// serve forwards one connection until either side closes it.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	if !p.add(client) {
		return
	}
	defer p.remove(client)
	p.wait()
	server, err := net.DialTimeout("tcp", p.target, dialTimeout)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.add(server) {
		return
	}
	defer p.remove(server)
	var back sync.WaitGroup
	back.Go(func() { p.pass(client, server) })
	p.pass(server, client)
	back.Wait()
}

// pass copies bytes until one side is closed, and then closes the other one.
func (p *Proxy) pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.wait()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns once bytes may be forwarded.
func (p *Proxy) wait() {
	p.mu.Lock()
	flow := p.flow
	p.mu.Unlock()
	<-flow
}

// add registers a connection. It returns false if the proxy is cut or closed.
func (p *Proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
