//go:build unix

package processes_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// partitions of the inbox: few, so that runners start fast.
const partitions = 8

// world is what the processes of a test share: a NATS server with its streams, and the working directory of the tools.
// Its own connection does not use a gateway.
type world struct {
	t     *testing.T
	url   string
	conn  *bus.Conn
	store *eventstore.Store
	root  string
}

// newWorld returns a world with a server in the test process.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, system.StartServer(t, false).ClientURL(), streams.Options{})
}

func newWorldOn(t *testing.T, url string, o streams.Options) *world {
	t.Helper()
	w := &world{t: t, url: url, conn: system.Connect(t, url, "test"), root: t.TempDir()}
	o.Partitions = partitions
	if err := streams.Setup(t.Context(), w.conn, o); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.store, err = eventstore.New(w.conn.Events(), eventstore.Options{}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.t.Context(), system.Deadline)
}

// session returns a session of the Go client.
func (w *world) session(id string) *client.Session {
	w.t.Helper()
	return bustest.Client(w.t, w.conn).Session(id)
}

func (w *world) prompt(session, text string) {
	w.t.Helper()
	bustest.Prompt(w.t, w.session(session), text)
}

// publish stores a command with this payload. With an id, the stream detects duplicates within its duplicate window.
func (w *world) publish(session string, kind schemas.CommandKind, id, payload string) *jetstream.PubAck {
	w.t.Helper()
	m := nats.NewMsg(w.conn.Subjects().Command(session, kind))
	m.Data = []byte(payload)
	if id != "" {
		m.Header.Set(nats.MsgIdHdr, id)
	}
	ctx, cancel := w.deadline()
	defer cancel()
	ack, err := w.conn.JetStream().PublishMsg(ctx, m)
	if err != nil {
		w.t.Fatalf("publish %s %s to session %s: %v", kind, id, session, err)
	}
	return ack
}

// until follows a session's log from its first event and returns it up to the first event for which last returns true.
func (w *world) until(session, what string, last func(schemas.Event) bool) (log []schemas.Event) {
	w.t.Helper()
	return bustest.Until(w.t, w.session(session), what, last)
}

// ended waits until the session's first run has ended and all messages are settled. It verifies the log and returns it.
func (w *world) ended(session string) []schemas.Event {
	w.t.Helper()
	w.until(session, "the end of the run", system.Ends(1))
	w.empty(schemas.StreamCommands)
	w.empty(schemas.StreamTools)
	system.Verify(w.t, w.store, session)
	if n := w.stored(schemas.StreamDead); n > 0 {
		w.t.Errorf("%d messages are dead-lettered", n)
	}
	return system.LogOf(w.t, w.store, session)
}

// empty waits until a stream is empty.
func (w *world) empty(stream string) {
	w.t.Helper()
	system.Eventually(w.t, stream+" is empty", func() bool {
		s, err := w.conn.JetStream().Stream(w.t.Context(), stream)
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
}

// stored returns how many messages were ever stored in a stream.
func (w *world) stored(stream string) uint64 {
	w.t.Helper()
	s, err := w.conn.JetStream().Stream(w.t.Context(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// write creates a file in the tools' directory.
func (w *world) write(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.root, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// counted returns how often each line is in a file of the tools' directory.
func (w *world) counted(name string) map[string]int {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.root, name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	lines := map[string]int{}
	for line := range strings.Lines(string(data)) {
		lines[strings.TrimSpace(line)]++
	}
	return lines
}
