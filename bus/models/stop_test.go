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

// A line is a TCP proxy between a client and the NATS server. It can hold back the data that the server sends.
type line struct {
	listener net.Listener

	mu       sync.Mutex
	moved    *sync.Cond
	held     bool
	toClient bytes.Buffer // data from the server since hold(true)
	toServer bytes.Buffer // all data from the client
	conns    []net.Conn
}

// newLine returns a line to the server. It is closed when the test ends.
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

// pass copies data and records it. While the line is held, data to the client waits.
func (l *line) pass(from, to net.Conn, record *bytes.Buffer) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		l.mu.Lock()
		record.Write(buffer[:n])
		l.moved.Broadcast()
		for l.held && record == &l.toClient {
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

// waitFor waits until words are in a record of the line.
func (l *line) waitFor(t *testing.T, record *bytes.Buffer, words string) {
	t.Helper()
	bustest.Eventually(t, words+" goes over the line", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Contains(record.String(), words)
	})
}

// TestStoppingServerRefusesRequestOnItsWay stops a server while a request is on its way to it. The server refuses the
// request: the idle timeout of the caller is an hour.
func TestStoppingServerRefusesRequestOnItsWay(t *testing.T) {
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
		_, last := stream(t, client, wholeRequest("hi"))
		answer <- last
	}()
	l.waitFor(t, &l.toClient, "agent.model.request")
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	l.waitFor(t, &l.toServer, "UNSUB")
	l.hold(false)
	wantFailure(t, <-answer, "connection lost: the runner that serves the model stops")
	await(t, "the server stops", stopped)
}
