//go:build unix

package processes_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest/ports"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/schemas"
)

// natsServer is a NATS server process that a test can kill and start again with the same address and directory.
type natsServer struct {
	listen, store string
	running       *command
}

func newNATSServer(t *testing.T) *natsServer {
	t.Helper()
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	s := &natsServer{listen: fmt.Sprintf("127.0.0.1:%d", free[0]), store: t.TempDir()}
	s.start(t)
	return s
}

func (s *natsServer) url() string { return "nats://" + s.listen }

func (s *natsServer) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	s.running = w.run(process.Command{
		Name: "nats-server", Path: self, Dir: s.store,
		Env: []string{listenVariable + "=" + s.listen, storeVariable + "=" + s.store},
	})
}

// TestTheServerIsKilled kills the only NATS server in the middle of a run and starts it again. The run continues
// without help.
func TestTheServerIsKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		at   point
		// A call may be in flight to a worker when the server dies, or a worker's heartbeat to the server: then the outcome
		// of the call is unknown.
		unknown bool
	}{
		{name: "before an event reaches it", at: point{what: schemas.EventToolExecutionStart, n: 1}},
		{name: "when it has stored an event and nobody knows",
			at: point{what: schemas.EventToolExecutionStart, n: 1, after: true}},
		{name: "when it has stored a call and nobody knows", at: point{what: passDispatch, n: 1, after: true}, unknown: true},
		{name: "while the model is streaming", at: point{what: passUpdate, n: 1}},
		{name: "before an acknowledgement", at: point{what: passAck, n: 1}, unknown: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := newNATSServer(t)
			w := newWorldOn(t, server.url(), streams.Options{})
			w.write("go", "")
			at := newTap(c.at, wire.Cut, func(*command) {
				if err := server.running.Kill(); err != nil {
					t.Error(err)
				}
			})
			w.toolworker("w1", nil)
			// The reply lasts until its beginning is stored, on a busy machine, too: its updates come after that.
			w.runner("r1", responses{calls(bash(note("a")+"; echo A"), read("file")), slow(3_000)}, at)
			w.write("file", "content")
			w.prompt("s1", "go")
			w.await(at)
			server.start(t)
			got := outcomeOf(w.ended("s1"))
			got.Resumed = nil // a runner that cannot append for long gives the session up, and resumes the run later
			executed := 1
			if c.unknown && got.Results[0] == schemas.TextOutcomeUnknown {
				executed, got.Results[0] = w.counted("count")["a"], "A\n"
			}
			want := outcome{
				Reasons: []schemas.TerminationReason{schemas.EndNoToolCalls}, Replies: []string{"", "slow"},
				Results: []string{"A\n", "content"},
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("the run (-want +got):\n%s", d)
			}
			if n := w.counted("count")["a"]; n != executed || n > 1 {
				t.Errorf("the unsafe call was executed %d times", n)
			}
		})
	}
}
