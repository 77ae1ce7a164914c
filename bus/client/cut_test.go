package client_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// relay forwards bytes between a client and its server. It can hold back the server's answers, and cut connections.
type relay struct {
	t      *testing.T
	server string
	l      net.Listener
	pinged chan struct{} // gets a value for each PING of the client while answers are held back

	mu    sync.Mutex
	keeps bool
	conns []net.Conn
	all   sync.WaitGroup
}

func newRelay(t *testing.T, server string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{t: t, server: server, l: l, pinged: make(chan struct{}, 64)}
	r.all.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.cut()
		r.all.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		client, err := r.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, server)
		r.mu.Unlock()
		r.all.Go(func() { r.pass(server, client, true) })
		r.all.Go(func() { r.pass(client, server, false) })
	}
}

// pass forwards from one side to the other until either closes.
func (r *relay) pass(to, from net.Conn, asks bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		r.mu.Lock()
		keeps := r.keeps
		r.mu.Unlock()
		if keeps && asks && bytes.Contains(buf[:n], []byte("PING")) {
			r.pinged <- struct{}{}
		}
		if !keeps || asks {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				r.t.Logf("relay: %v", err)
			}
			return
		}
	}
}

func (r *relay) keepBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keeps = true
}

// cut closes all connections; new ones are forwarded without holding back.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns, r.keeps = nil, false
}

// A connection lost while the client subscribes must not count as closed, although nats.go returns the same error for
// both.
func TestWatchSurvivesConnectionLossWhileSubscribing(t *testing.T) {
	t.Parallel()
	server, a, _ := start(t)
	a.commit(&schemas.AgentStart{})
	r := newRelay(t, server.ClientURL()[len("nats://"):])
	c := connect(t, "nats://"+r.l.Addr().String())
	r.keepBack()
	w := watch(t, c.Session("s1"), 1)
	<-r.pinged // the subscription waits for its answer
	r.cut()
	w.want("1 agent_start")
	a.commit(&schemas.QueueUpdate{})
	w.want("2 queue_update")
	c.Close()
	for range w.items {
		t.Error("there is an item after the end of the connection")
	}
	if !errors.Is(w.err, nats.ErrConnectionClosed) { // now it is
		t.Errorf("the loop ended with %v", w.err)
	}
}
