//go:build unix

package anylanguage_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// world is a NATS server, a runner process with the model rehearsal, and a client.
type world struct {
	t        *testing.T
	url      string
	conn     *bus.Conn
	sessions int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	url := system.StartServer(t, false).ClientURL()
	w := &world{t: t, url: url, conn: system.Connect(t, url, "test")}
	if err := streams.Setup(t.Context(), w.conn, streams.Options{Partitions: 8}); err != nil {
		t.Fatal(err)
	}
	w.start("runner", filepath.Join(dir, "runner"), "--nats", url, "--model", "rehearsal", "--http", "off")
	return w
}

// start runs a program until it is stopped or the test ends.
func (w *world) start(name, path string, args ...string) *process.Process {
	w.t.Helper()
	dir := w.t.TempDir()
	log := filepath.Join(dir, "output")
	p, err := process.Start(process.Command{
		Name: name, Path: path, Args: args, Dir: dir, Log: log, Group: true,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "NATS_URL=" + w.url,
			"GORACE=atexit_sleep_ms=0"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			w.t.Error(err)
		}
		if w.t.Failed() {
			said, _ := os.ReadFile(log) // the file may not exist
			w.t.Logf("%s said:\n%s", name, said)
		}
	})
	return p
}

// session returns a new session.
func (w *world) session() string {
	w.sessions++
	return "s" + string(rune('0'+w.sessions))
}

func (w *world) say(session, text string) {
	w.t.Helper()
	bustest.Prompt(w.t, bustest.Client(w.t, w.conn).Session(session), text)
}

// updates returns a subscription to the live updates of a session.
func (w *world) updates(session string) <-chan *nats.Msg {
	w.t.Helper()
	c := make(chan *nats.Msg, 4096)
	sub, err := w.conn.NATS().ChanSubscribe(w.conn.Subjects().LiveUpdate(session), c)
	if err == nil {
		err = w.conn.NATS().Flush()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = sub.Unsubscribe() }) // fails only on a closed connection
	return c
}
