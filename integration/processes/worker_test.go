//go:build unix

package processes_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/worker"
)

// lostAfter is how long a call stays with a worker that gives no sign of life, in place of 30 s.
const lostAfter = 3 * time.Second

// missWorkersEarly changes that for the workers there are.
func (w *world) missWorkersEarly() {
	w.t.Helper()
	for _, tool := range []string{"bash", "read"} {
		c := worker.Consumer(w.conn.Subjects(), tool, lostAfter)
		if _, err := w.conn.JetStream().UpdateConsumer(w.t.Context(), schemas.StreamTools, c); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestAWorkerIsKilled kills the worker of a call at points of its execution, and has another one there.
func TestAWorkerIsKilled(t *testing.T) {
	for _, c := range []struct {
		name     string
		at       point
		call     any
		result   string
		answered string // by which worker
		executed map[string]int
	}{
		{"an unsafe call in the middle", point{what: passUpdate, n: 2}, bash(note("a") + "; echo A; sleep 10"),
			schemas.TextOutcomeUnknown, "w2", map[string]int{"a": 1}},
		{"an unsafe call before it is answered", point{what: passResult, n: 1}, bash(note("a")),
			schemas.TextOutcomeUnknown, "w2", map[string]int{"a": 1}},
		{"an unsafe call when it is answered", point{what: passResult, n: 1, after: true}, bash(note("a") + "; echo A"),
			"A\n", "w1", map[string]int{"a": 1}},
		{"an unsafe call before it is settled", point{what: passSettle, n: 1}, bash(note("a") + "; echo A"),
			"A\n", "w1", map[string]int{"a": 1}},
		{"a read-only call before it is answered", point{what: passResult, n: 1}, read("file"),
			"content", "w2", map[string]int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write("file", "content")
			at := killAt(c.at)
			w.toolworker("w1", at)
			w.runner("r1", responses{calls(c.call), text("done")}, nil)
			w.prompt("s1")
			w.await(at)
			w.toolworker("w2", nil)
			w.missWorkersEarly()
			log := w.ended("s1")
			want := outcome{
				Reasons: []schemas.TerminationReason{schemas.EndNoToolCalls}, Replies: []string{"", "done"}, Results: []string{c.result},
			}
			if d := cmp.Diff(want, outcomeOf(log)); d != "" {
				t.Errorf("the run (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.executed, w.counted("count")); d != "" {
				t.Errorf("executions (-want +got):\n%s", d)
			}
			if by := system.DataOf[*schemas.ToolExecutionEnd](log)[0].Worker; by != c.answered {
				t.Errorf("%s has answered, want %s", by, c.answered)
			}
		})
	}
}
