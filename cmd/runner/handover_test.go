package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
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
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server, err := bus.StartServer(bus.ServerOptions{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	w := &world{t: t, url: server.ClientURL(), root: t.TempDir()}
	if w.conn, err = bus.Connect(t.Context(), bus.ConnOptions{URL: w.url, Name: "test"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.conn.Close)
	if err := bus.Setup(t.Context(), w.conn, bus.StreamOptions{}); err != nil {
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
	toolbox := bus.NewToolbox(w.conn, nil)
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
	return start(w.t, nil, "--nats", w.url, "--id", id, "--model", "scripted", "--script", path, "--http", "127.0.0.1:0", "--log-json").ready()
}

func (w *world) prompt(session string) {
	w.t.Helper()
	if _, err := w.conn.JetStream().Publish(w.t.Context(), w.conn.Subjects().Command(session, schemas.CommandPrompt), []byte("go")); err != nil {
		w.t.Fatal(err)
	}
}

// until follows the session's log from its first event to the nth of a type.
func (w *world) until(session string, n int, want schemas.EventType) (log []schemas.Event) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), deadline)
	defer cancel()
	for e, err := range w.store.Follow(ctx, session, 1) {
		if err != nil {
			w.t.Fatal(err)
		}
		log = append(log, e)
		if e.Type() == want {
			n--
		}
		if n == 0 {
			return log
		}
	}
	w.t.Fatalf("session %s has no %s after %d events", session, want, len(log))
	return nil
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

// bashCall is a response of a script that calls bash.
func bashCall(command string) string {
	raw, err := json.Marshal(map[string]any{"toolCalls": []any{map[string]any{"name": "bash", "arguments": map[string]string{"command": command}}}})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// stuck is a response that begins and then takes longer than any test.
const stuck = `{"events":[{"type":"start"},{"type":"text_start"},{"type":"text_delta","delta":"hal"},{"delayMs":600000},{"type":"done"}],
	"message":{"content":[{"type":"text","text":"half"}]}}`

// outcome is what a log says of its run.
type outcome struct {
	Ends, Resumed, ToolResults, Interrupted int
	Reason                                  schemas.TerminationReason
	Replies                                 []string
	Last                                    string // source of the last event
}

func outcomeOf(log []schemas.Event) (o outcome) {
	for _, e := range log {
		o.Last = e.Source
		switch d := e.Data.(type) {
		case *schemas.AgentEnd:
			o.Ends++
			o.Reason = d.TerminationReason
		case *schemas.RunResumed:
			o.Resumed++
		case *schemas.ToolExecutionEnd:
			o.ToolResults++
		case *schemas.MessageEnd:
			reply, ok := d.Message.Message.(*schemas.AssistantMessage)
			if ok && d.Interrupted {
				o.Interrupted++
			} else if ok {
				o.Replies = append(o.Replies, reply.Content.JoinText())
			}
		}
	}
	return o
}

func (o outcome) equal(other outcome) bool {
	replies := slices.Equal(o.Replies, other.Replies)
	return replies && o.Ends == other.Ends && o.Resumed == other.Resumed && o.ToolResults == other.ToolResults &&
		o.Interrupted == other.Interrupted && o.Reason == other.Reason && o.Last == other.Last
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

// A model call is under way when its runner goes. Another one takes the session up where the log ends: the tool is not
// called again, the reply is asked for again, and the run has one end. A runner that is told to stop hands its sessions
// over at once; one that is killed is missed after the timeouts of the inbox.
func TestAnotherRunnerGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal os.Signal
		within time.Duration // a stop is faster than every timeout there is
	}{
		{"after SIGTERM", syscall.SIGTERM, 3 * time.Second},
		{"after SIGKILL", syscall.SIGKILL, 15 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			call := bashCall("echo ran >> count")
			first := w.runner("first", "["+call+","+stuck+"]")
			w.prompt("s1")
			w.until("s1", 4, schemas.EventMessageStart) // prompt, call, result, and the reply that is stuck
			w.runner("second", "["+call+`,{"text":"done"}]`)
			gone := time.Now()
			first.signal(c.signal)
			w.until("s1", 1, schemas.EventAgentEnd)
			took := time.Since(gone)
			t.Logf("the run ended %s after the signal", took)
			if took > c.within {
				t.Errorf("the run ended %s after the signal, want within %s", took, c.within)
			}
			if c.signal == syscall.SIGTERM {
				first.wantExit(0)
			}
			if ended := time.Since(gone); ended > c.within {
				t.Errorf("the runner ended %s after the signal", ended)
			}
			w.settled("s1", outcome{
				Ends: 1, Resumed: 1, ToolResults: 1, Interrupted: 1, Reason: schemas.EndNoToolCalls,
				Replies: []string{"", "done"}, Last: "/loopbus/runner/second",
			})
			w.wantLines("count", 1)
		})
	}
}

// A session that waits for a tool is at rest: nobody has to take it up, and the result finds whoever reads the inbox.
func TestResultFindsAnotherRunner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal os.Signal
	}{{"after SIGTERM", syscall.SIGTERM}, {"after SIGKILL", syscall.SIGKILL}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			script := "[" + bashCall("echo ran >> count; until [ -e go ]; do sleep 0.02; done") + `,{"text":"done"}]`
			first := w.runner("first", script)
			w.prompt("s1")
			eventually(t, "the command runs", func() bool {
				_, err := os.Stat(filepath.Join(w.root, "count"))
				return err == nil
			})
			w.runner("second", script)
			first.signal(c.signal)
			first.wait()
			if err := os.WriteFile(filepath.Join(w.root, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			w.until("s1", 1, schemas.EventAgentEnd)
			w.settled("s1", outcome{
				Ends: 1, ToolResults: 1, Reason: schemas.EndNoToolCalls, Replies: []string{"", "done"}, Last: "/loopbus/runner/second",
			})
			w.wantLines("count", 1)
		})
	}
}
