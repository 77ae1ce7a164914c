package eventstore_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a client and a server and loses what the test chooses.
type proxy struct {
	listener net.Listener
	target   string
	loseUp   atomic.Bool  // lose what the client sends
	loseDown atomic.Bool  // lose what the server sends
	lost     atomic.Int64 // bytes lost
	heard    atomic.Int64 // bytes sent to clients

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		down, err := p.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = down.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, down, up)
		p.mu.Unlock()
		p.wg.Go(func() { p.pipe(up, down, &p.loseUp) })
		p.wg.Go(func() { p.pipe(down, up, &p.loseDown) })
	}
}

func (p *proxy) pipe(to, from net.Conn, lose *atomic.Bool) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if lose.Load() {
			p.lost.Add(int64(n))
		} else if _, err := to.Write(buf[:n]); err != nil {
			return
		} else if lose == &p.loseDown {
			p.heard.Add(int64(n))
		}
		if err != nil {
			return
		}
	}
}

// cut closes all connections and loses nothing from then on.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.loseUp.Store(false)
	p.loseDown.Store(false)
}
