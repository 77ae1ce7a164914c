package models_test

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// A line is between a client and the NATS server. It passes on what both say, and can hold back what the server does.
type line struct {
	listener net.Listener

	mu       sync.Mutex
	moved    *sync.Cond
	held     bool
	toClient bytes.Buffer // what the server has sent since the line was paused, and has not been passed on
	toServer bytes.Buffer // all that the client has said
	conns    []net.Conn
}

// newLine returns a line to the server, for the length of the test.
func newLine(t *testing.T, server *embedded.Server) *line {
	t.Helper()
	l := new(line)
	l.moved = sync.NewCond(&l.mu)
	var err error
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(server.ClientURL(), "nats://")
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				continue
			}
			l.mu.Lock()
			l.conns = append(l.conns, client, upstream)
			l.mu.Unlock()
			all.Go(func() { l.pass(client, upstream, &l.toServer) })
			all.Go(func() { l.pass(upstream, client, &l.toClient) })
		}
	})
	t.Cleanup(func() {
		_ = l.listener.Close()
		l.hold(false)
		l.mu.Lock()
		for _, c := range l.conns {
			_ = c.Close()
		}
		l.mu.Unlock()
		all.Wait()
	})
	return l
}

// pass copies, and records what it copies. What goes to the client waits while the line is paused.
func (l *line) pass(from, to net.Conn, note *bytes.Buffer) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		note.Write(buffer[:n])
		l.moved.Broadcast()
		for l.held && note == &l.toClient {
			l.moved.Wait()
		}
		l.mu.Unlock()
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

func (l *line) hold(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held {
		l.toClient.Reset()
	}
	l.held = held
	l.moved.Broadcast()
}

// said waits until one side has said the words.
func (l *line) said(t *testing.T, who *bytes.Buffer, words string) {
	t.Helper()
	bustest.Eventually(t, words+" goes over the line", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Contains(who.String(), words)
	})
}

// TestARequestThatMeetsAServerThatStops is on its way to a server when that stops. It is answered at once: its caller
// waits for idle no sooner than in an hour.
func TestARequestThatMeetsAServerThatStops(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	l := newLine(t, server)
	serving, err := bus.Connect(bustest.Deadline(t),
		bus.ConnOptions{URL: "nats://" + l.listener.Addr().String(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serving.Close)
	stop := serveModels(t, serving, modelFunc(nil), models.ServerOptions{})
	client := models.NewClient(bustest.Connect(t, server), models.ClientOptions{IdleTimeout: time.Hour})

	l.hold(true)
	answer := make(chan *schemas.AssistantMessage, 1)
	go func() {
		_, last := asked(t, client, wholeRequest("hi"))
		answer <- last
	}()
	l.said(t, &l.toClient, "agent.model.request")
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	l.said(t, &l.toServer, "UNSUB")
	l.hold(false)
	wantFailure(t, <-answer, "connection lost: the runner that serves the model stops")
	await(t, "the server stops", stopped)
}
