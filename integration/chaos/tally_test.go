//go:build unix

package chaos_test

import (
	"fmt"
	"io"
	"time"

	"github.com/loopbus/loopbus/integration/chaos/internal/program"
	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/schemas"
)

// tally adds up the faults, counts and violations of all rounds.
type tally struct {
	rounds, sent, acked, copies, events, calls, executions int
	resumed, subagents, deleted                            int
	faults                                                 map[program.Role]map[program.Kind]int
	found                                                  map[history.Class]int
	violations                                             []history.Violation
	slowest                                                time.Duration // from healing to rest
}

func newTally() *tally {
	return &tally{faults: map[program.Role]map[program.Kind]int{}, found: map[history.Class]int{}}
}

func (y *tally) add(faults []program.Fault, h history.History, violations []history.Violation, rest time.Duration) {
	y.rounds++
	y.deleted += len(h.Deleted)
	for _, f := range faults {
		if y.faults[f.Target.Role] == nil {
			y.faults[f.Target.Role] = map[program.Kind]int{}
		}
		y.faults[f.Target.Role][f.Kind]++
	}
	for _, c := range h.Commands {
		y.sent++
		y.copies += c.Copies
		if !c.Acked.IsZero() {
			y.acked++
		}
	}
	for _, log := range h.Logs {
		y.events += len(log)
		for _, e := range log {
			switch e.Type() {
			case schemas.EventToolExecutionStart:
				y.calls++
			case schemas.EventRunResumed:
				y.resumed++
			case schemas.EventSubagentStart:
				y.subagents++
			}
		}
	}
	for _, n := range h.Executions {
		y.executions += n
	}
	for _, v := range violations {
		y.found[v.Class]++
	}
	y.violations = append(y.violations, violations...)
	y.slowest = max(y.slowest, rest)
}

// print writes two tables in Markdown, as docs/reliability.md has them, and the violations below them, because a
// truncated log keeps its end.
func (y *tally) print(w io.Writer, took time.Duration) {
	fmt.Fprint(w, "\n| fault |")
	for _, role := range program.Roles() {
		fmt.Fprintf(w, " %s |", role)
	}
	fmt.Fprint(w, "\n|---|---|---|---|---|---|\n")
	total := 0
	for _, kind := range program.Kinds() {
		fmt.Fprintf(w, "| %s |", kind)
		for _, role := range program.Roles() {
			n := y.faults[role][kind]
			total += n
			fmt.Fprintf(w, " %d |", n)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "\n| | |\n|---|---|\n")
	for _, row := range []struct {
		what string
		n    any
	}{
		{"seeds", y.rounds}, {"time", took.Round(time.Second)}, {"faults injected", total},
		{"commands sent", y.sent}, {"copies of them, repetitions included", y.copies}, {"acked", y.acked},
		{"acked and lost", y.found[history.Lost]}, {"commands or calls doubled", y.found[history.Doubled]},
		{"in a log and never sent", y.found[history.Foreign]}, {"out of order", y.found[history.Order]},
		{"tool calls", y.calls}, {"sub-agents", y.subagents}, {"sessions deleted", y.deleted},
		{"executions counted", y.executions},
		{"calls without exactly one true result", y.found[history.Result]},
		{"events", y.events}, {"runs resumed elsewhere", y.resumed},
		{"impossible logs", y.found[history.Shape]}, {"sessions stuck", y.found[history.Stuck]},
		{"slowest rest after healing", y.slowest.Round(100 * time.Millisecond)},
	} {
		fmt.Fprintf(w, "| %s | %v |\n", row.what, row.n)
	}
	for _, v := range y.violations[:min(len(y.violations), maxReported)] {
		fmt.Fprintf(w, "violation: %s\n", v)
	}
}
