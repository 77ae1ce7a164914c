//go:build unix

package processes_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// outcome is the outcome of the one run of a log.
type outcome struct {
	Reasons     []schemas.TerminationReason
	Replies     []string
	Results     []string // in the order of the calls
	Resumed     []string // reasons
	Interrupted int      // number of interrupted replies
}

func outcomeOf(log []schemas.Event) outcome {
	o := outcome{Reasons: system.Reasons(log), Replies: system.Replied(log)}
	for _, d := range system.DataOf[*schemas.MessageEnd](log) {
		if d.Interrupted {
			o.Interrupted++
		}
		if m, ok := d.Message.Message.(*schemas.ToolResultMessage); ok {
			o.Results = append(o.Results, m.Content.JoinText())
		}
	}
	for _, d := range system.DataOf[*schemas.RunResumed](log) {
		o.Resumed = append(o.Resumed, d.Reason)
	}
	return o
}

// twoCalls is a run with a turn of two calls and a turn without calls.
var twoCalls = responses{calls(bash(note("a")+"; echo A"), bash(held("b")+"; echo B")), text("done")}

// A row is a point at which a runner is killed.
type row struct {
	point
	name  string
	held  bool      // the second call ends only after the runner was killed
	plays responses // model replies of the first runner, if different from those of the second
	want  []string  // allowed reasons in the second runner's run_resumed; nil if it must write none
}

const (
	goesOn         = "" // nothing was interrupted
	whileStreaming = "while the model was streaming"
	beforeModel    = "before the model was called"
	beforeTurn     = "before turn_start"
	beforeMessage  = "before message_start" // of the prompt
	withinMessage  = "before message_end"
	beforeCalls    = "before all tool calls were dispatched"
)

// Which events share a commit depends on how fast the server answers. So a row lists all reasons that are correct if
// its runner dies at this point.
var rows = []row{
	{name: "before the command is in the log", point: point{what: schemas.EventCommandAccepted, n: 1}},
	{name: "when the command is in the log and nobody knows",
		point: point{what: schemas.EventCommandAccepted, n: 1, after: true}},
	{name: "before the reply's beginning is stored", point: point{what: schemas.EventMessageStart, n: 2},
		want: []string{beforeModel, beforeTurn, beforeMessage, withinMessage, goesOn}},
	{name: "when the reply's beginning is stored", point: point{what: schemas.EventMessageStart, n: 2, after: true},
		want: []string{whileStreaming, beforeCalls, goesOn}},
	{name: "while the model is streaming", point: point{what: passUpdate, n: 1}, plays: responses{stuck},
		want: []string{whileStreaming}},
	{name: "when the reply is stored", point: point{what: schemas.EventMessageEnd, n: 2, after: true},
		want: []string{beforeCalls, goesOn}},
	{name: "when the first call is taken up", point: point{what: schemas.EventToolExecutionStart, n: 1, after: true},
		want: []string{beforeCalls, goesOn}},
	{name: "before the first call is dispatched", point: point{what: passDispatch, n: 1}},
	{name: "when the first call is dispatched and the second is not", point: point{what: passDispatch, n: 1, after: true}},
	{name: "before the second call is dispatched", point: point{what: passDispatch, n: 2}},
	{name: "while tools run, before the acknowledgement", point: point{what: passAck, n: 1}, held: true},
	{name: "while tools run, before a result is in the log", point: point{what: schemas.EventToolExecutionEnd, n: 1},
		held: true},
	{name: "while tools run, when a result is in the log",
		point: point{what: schemas.EventToolExecutionEnd, n: 1, after: true}, held: true},
	{name: "before the last event", point: point{what: schemas.EventAgentEnd, n: 1},
		want: []string{whileStreaming, beforeModel, "before turn_end", "before agent_end"}},
	{name: "after the last event, before the acknowledgement",
		point: point{what: schemas.EventAgentEnd, n: 1, after: true}},
}

// TestEveryRow kills a runner at every point of the documented table of crashes, and checks how another runner
// continues. The default suite takes every third point, from a random one on.
func TestEveryRow(t *testing.T) {
	t.Parallel()
	const third = 3
	first := rand.IntN(third)
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if i%third != first {
				suite.LongForm(t)
			}
			t.Parallel()
			w := newWorld(t)
			if !r.held {
				w.write("go", "")
			}
			w.toolworker("w1", nil)
			plays := r.plays
			if plays == nil {
				plays = twoCalls
			}
			at := killAt(r.point)
			w.runner("first", plays, at)
			w.prompt("s1", "go")
			w.await(at)
			w.runner("second", twoCalls, nil)
			w.write("go", "")
			log := w.ended("s1")

			got := outcomeOf(log)
			want := outcome{
				Reasons: []schemas.TerminationReason{schemas.EndNoToolCalls}, Replies: []string{"", "done"},
				Results: []string{"A\n", "B\n"},
			}
			interrupted := strings.Join(got.Resumed, ", ")
			if r.want == nil && interrupted != goesOn || r.want != nil && !slices.Contains(r.want, interrupted) {
				t.Errorf("resumed %q, want one of %q", interrupted, r.want)
			}
			if interrupted == whileStreaming {
				want.Interrupted = 1
			}
			got.Resumed = nil
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("the run (-want +got):\n%s", d)
			}
			if d := cmp.Diff(map[string]int{"a": 1, "b": 1}, w.counted("count")); d != "" {
				t.Errorf("executions (-want +got):\n%s", d)
			}
			if n := w.stored(schemas.StreamTools); n != 2 {
				t.Errorf("%d calls were dispatched", n)
			}
			wantExplained(t, log, "first", "second")
		})
	}
}

// await waits until a tap has done its action.
func (w *world) await(at *tap) {
	w.t.Helper()
	ctx, cancel := w.deadline()
	defer cancel()
	select {
	case <-at.struck:
	case <-ctx.Done():
		w.t.Fatalf("the process did not reach the point %s", at.at)
	}
}

// wantExplained checks that one runner wrote the first events and another one the rest, and that each run_resumed names
// the last event before it and the reply that was closed.
func wantExplained(t *testing.T, log []schemas.Event, first, second string) {
	t.Helper()
	var last uint64 // of the first runner
	closed := ""    // id of the reply that was closed last
	for _, e := range log {
		switch e.Source {
		case source(first):
			if last+1 != e.Seq {
				t.Errorf("event %d is by the first runner %s again", e.Seq, first)
			}
			last = e.Seq
		case source(second):
		default:
			t.Errorf("event %d is by %s", e.Seq, e.Source)
		}
		switch d := e.Data.(type) {
		case *schemas.MessageEnd:
			if d.Interrupted {
				closed = d.MessageID
			}
		case *schemas.RunResumed:
			if d.From != last || d.MessageID != closed {
				t.Errorf("event %d has from %d and reply %q, want from %d and reply %q", e.Seq, d.From, d.MessageID, last, closed)
			}
		}
	}
}

func source(runner string) string { return "/loopbus/runner/" + runner }
