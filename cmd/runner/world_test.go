package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// world is what outlives the runners: a server, and a toolworker that works in root.
type world struct {
	t     *testing.T
	url   string
	conn  *bus.Conn
	store *eventstore.Store
	root  string
	dir   string // what the server stores
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	server, err := embedded.Start(embedded.Options{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	w := &world{t: t, url: server.ClientURL(), root: t.TempDir(), dir: dir}
	if w.conn, err = bus.Connect(t.Context(), bus.ConnOptions{URL: w.url, Name: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.conn.Close)
	if err := streams.Setup(t.Context(), w.conn, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	if w.store, err = eventstore.New(w.conn.Events(), eventstore.Options{}); err != nil {
		t.Fatal(err)
	}
	w.serveTools()
	return w
}

func (w *world) serveTools() {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- toolserve.Run(ctx, w.conn, toolserve.Options{
			ID: "w1", Tools: []string{"bash"}, Root: w.root, Concurrency: 4, StopTimeout: time.Second, Environ: os.Environ(),
		})
	}()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	toolbox := registry.NewToolbox(w.conn, nil)
	w.t.Cleanup(toolbox.Close)
	wait, cancel := context.WithTimeout(w.t.Context(), deadline)
	defer cancel()
	if err := toolbox.Wait(wait, "bash"); err != nil {
		w.t.Fatal(err)
	}
}

// runner starts a runner that plays a script on the world's server.
func (w *world) runner(id, script string) *process {
	w.t.Helper()
	path := write(w.t, id+".json", script)
	return start(w.t, nil, "--nats", w.url, "--id", id, "--model", "scripted", "--script", path, "--http", "127.0.0.1:0",
		"--log-json").ready()
}

// command sends a session a command.
func (w *world) command(session string, data schemas.CommandData) {
	w.t.Helper()
	bustest.Command(w.t, bustest.Client(w.t, w.conn).Session(session), data)
}

func (w *world) prompt(session string) {
	w.t.Helper()
	w.command(session, &schemas.Prompt{Input: client.Text("go")})
}

// until follows the session's log from its first event to the nth of a type.
func (w *world) until(session string, n int, want schemas.EventType) (log []schemas.Event) {
	w.t.Helper()
	return bustest.Until(w.t, bustest.Client(w.t, w.conn).Session(session), string(want), bustest.Nth(n, want))
}

// wantLines wants a file in root to have n lines.
func (w *world) wantLines(name string, n int) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.root, name))
	if err != nil {
		w.t.Fatal(err)
	}
	if got := strings.Count(string(data), "\n"); got != n {
		w.t.Errorf("%s has %d lines, want %d: the command ran that often", name, got, n)
	}
}

// settled waits until nothing is left in the inbox, and wants the log to be as it was and sound.
func (w *world) settled(session string, want outcome) {
	w.t.Helper()
	eventually(w.t, "the inbox is empty", func() bool {
		stream, err := w.conn.JetStream().Stream(w.t.Context(), schemas.StreamCommands)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
	var log []schemas.Event
	for e, err := range w.store.Read(w.t.Context(), session, 1) {
		if err != nil {
			w.t.Fatal(err)
		}
		log = append(log, e)
	}
	if got := outcomeOf(log); !got.equal(want) {
		w.t.Errorf("got  %+v\nwant %+v", got, want)
	}
	report, err := w.store.Verify(w.t.Context(), session, eventstore.VerifyOptions{})
	if err != nil || !report.OK() {
		w.t.Errorf("verify: %v, %v", err, report.Bad)
	}
}

// ioOf is what a process would have, with nothing in its environment.
func ioOf(stdin io.Reader, out io.Writer) *cli.IO {
	return &cli.IO{Stdin: stdin, Stdout: out, Stderr: out, Getenv: func(string) string { return "" }}
}
