// Package proxy stands between a client and a server and cuts, stalls and heals what passes.
package proxy

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// Proxy passes TCP connections on to one address. A connection that cannot be passed on is closed. All methods may be
// called concurrently.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // both ends of every connection
	cut    bool
	closed bool
	flow   chan struct{} // closed while bytes may pass
}

// dialTimeout bounds how long a connection to the target may take.
const dialTimeout = 2 * time.Second

// New listens on a free port of 127.0.0.1 and passes on to target. The caller has to [Proxy.Close] it.
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

// Addr is where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut closes all connections and refuses new ones until [Proxy.Heal].
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.closeAll()
}

// Reset closes all connections. New ones are welcome.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeAll()
}

// Stall keeps connections open and lets nothing pass in either direction until [Proxy.Heal].
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.flow) && !p.closed {
		p.flow = make(chan struct{})
	}
}

// Heal undoes Cut and Stall: what was stalled passes.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	p.open()
}

// Close ends the proxy and every connection, and returns when all is over.
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

// serve passes one connection on until either side ends it.
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

// pass copies until one side ends and then ends the other.
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

// wait returns once bytes may pass.
func (p *Proxy) wait() {
	p.mu.Lock()
	flow := p.flow
	p.mu.Unlock()
	<-flow
}

// add reports false if no connection may be opened.
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
