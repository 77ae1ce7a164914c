//go:build unix

package processes_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

var workerKills = flag.Int("processes.kills", 1, "how often TestAWorkerIsKilled kills the worker of each call")

// noticedWithin is far more than the promised five seconds, for busy machines. The promise is checked by reading the
// table that a quiet machine prints.
const noticedWithin = 15 * time.Second

// counting is a command that says something twenty times a second for as long as any test lasts.
const counting = "; for i in $(seq 2000); do echo $i; sleep 0.05; done"

// TestAWorkerIsKilled kills the worker of a call at points of its execution, with the default settings, while another
// worker is live. It measures how long the session waits for its next event.
func TestAWorkerIsKilled(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	waits := map[string][]time.Duration{}
	t.Cleanup(func() { reportWaits(t, waits) })
	for _, c := range []struct {
		name     string
		at       func() point
		class    schemas.Effect
		call     any
		result   string
		answered string // by which worker
		executed map[string]int
	}{
		{"an unsafe call in the middle", someUpdate, schemas.EffectUnsafe, bash(note("a") + counting),
			schemas.TextOutcomeUnknown, "w2", map[string]int{"a": 1}},
		{"an unsafe call before it is answered", onResult(false), schemas.EffectUnsafe, bash(note("a")),
			schemas.TextOutcomeUnknown, "w2", map[string]int{"a": 1}},
		{"an unsafe call when it is answered", onResult(true), schemas.EffectUnsafe, bash(note("a") + "; echo A"),
			"A\n", "w1", map[string]int{"a": 1}},
		{"an unsafe call before it is settled", onSettle, schemas.EffectUnsafe, bash(note("a") + "; echo A"),
			"A\n", "w1", map[string]int{"a": 1}},
		{"a read-only call before it is answered", onResult(false), schemas.EffectReadOnly, read("file"),
			"content", "w2", map[string]int{}},
		{"an idempotent call before it is answered", onResult(false), schemas.EffectIdempotent, write("count", "b"),
			"Successfully wrote 1 bytes to count", "w2", map[string]int{"b": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for range *workerKills {
				w := newWorld(t)
				w.write("file", "content")
				at := killAt(c.at())
				w.toolworker("w1", at)
				w.runner("r1", responses{calls(c.call), text("done")}, nil)
				w.prompt("s1", "go")
				w.await(at)
				killed := time.Now()
				w.toolworker("w2", nil)
				w.until("s1", "the call's end", bustest.Nth(1, schemas.EventToolExecutionEnd))
				waited := time.Since(killed)
				log := w.ended("s1")
				want := outcome{
					Reasons: []schemas.TerminationReason{schemas.EndNoToolCalls}, Replies: []string{"", "done"},
					Results: []string{c.result},
				}
				if d := cmp.Diff(want, outcomeOf(log)); d != "" {
					t.Errorf("the run (-want +got):\n%s", d)
				}
				if d := cmp.Diff(c.executed, w.counted("count")); d != "" {
					t.Errorf("executions (-want +got):\n%s", d)
				}
				if by := system.DataOf[*schemas.ToolExecutionEnd](log)[0].Worker; by != c.answered {
					t.Errorf("worker %s has answered, want %s", by, c.answered)
				}
				if waited > noticedWithin {
					t.Errorf("the session waited %s", waited)
				}
				if c.answered == "w2" {
					mu.Lock()
					waits[string(c.class)] = append(waits[string(c.class)], waited)
					mu.Unlock()
				}
			}
		})
	}
}

// someUpdate draws a point within the first two seconds of a call, so that the time since the last heartbeat varies. It
// is not the first update, which reports the start of the call, before its command has done anything.
func someUpdate() point { return point{what: passUpdate, n: 2 + rand.IntN(20)} }

func onResult(after bool) func() point {
	return func() point { return point{what: passResult, n: 1, after: after} }
}

func onSettle() point { return point{what: passSettle, n: 1} }

// reportWaits prints a table of how long sessions waited.
func reportWaits(t *testing.T, waits map[string][]time.Duration) {
	text := "\n| the call is | killed | median | p99 | longest |\n|---|---|---|---|---|\n"
	for _, class := range []schemas.Effect{schemas.EffectUnsafe, schemas.EffectIdempotent, schemas.EffectReadOnly} {
		all := waits[string(class)]
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		at := func(q float64) time.Duration {
			return all[min(int(q*float64(len(all))), len(all)-1)].Round(10 * time.Millisecond)
		}
		text += fmt.Sprintf("| %s | %d | %s | %s | %s |\n", class, len(all), at(0.5), at(0.99), at(1))
	}
	t.Log(text)
}
