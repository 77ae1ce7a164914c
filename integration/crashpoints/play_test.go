package crashpoints_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// play runs a scenario in a new session of the stage, with these faults one after the other. It returns the outcome
// once all messages are settled. It fails the test if the logs or messages break a rule that holds for all scenarios.
func (l *stage) play(t *testing.T, s *scenario, faults ...fault) (*trial, outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, deadline)
	defer cancel()
	tr := newTrial(ctx, l, s, l.name("s"), faults)
	l.begin(tr)
	victim := l.victim(s)
	victim.tap.arm(tr, len(faults) == 0)
	endReplacing := l.replaceTheStopped(t, tr)
	defer endReplacing()
	s.user(t, tr)
	tr.settle(t)
	if len(faults) == 1 {
		tr.awaitFault(t, faults[0])
	}
	late := endReplacing()
	l.victim(s).tap.disarm()
	logs := tr.logs(t)
	for session, log := range logs {
		system.Verify(t, l.store, session)
		for _, wrong := range slices.Concat(legal(log), answeredOnce(session, logs)) {
			t.Errorf("%s: %s", session, wrong)
		}
	}
	for _, w := range tr.witnesses() {
		for _, wrong := range w.saw() {
			t.Errorf("%s: %s", w.session, wrong)
		}
	}
	l.thaw(t, tr, late, countEvents(logs))
	if t.Failed() {
		for _, w := range tr.witnesses() {
			t.Logf("%s: %s", w.session, w.history())
		}
		t.Logf("the logs:%s", tr.describe(t))
	}
	return tr, tr.outcome(logs)
}

// awaitFault waits until the fault has happened: a run passes its last points after its last event. Some points exist
// only in some runs: what a sub-agent and its parent tell each other is sent again, and acknowledged again, if the
// answer takes long, and the logs of a family have an event more or less with that. So a run may end without them.
func (tr *trial) awaitFault(t *testing.T, f fault) {
	t.Helper()
	optional := f.at.kind == pointAck || f.at.kind == pointFamily ||
		f.at.kind == pointAppend && tr.scenario.children > 0
	if !optional {
		tr.wait(t, "the run reaches "+f.at.String(), tr.faulted)
		return
	}
	select {
	case <-tr.faulted.done:
	case <-time.After(lastPoints):
	}
}

// lastPoints is how long a run may take for its last points, once all its messages are settled.
const lastPoints = 5 * time.Second

func countEvents(logs map[string][]schemas.Event) (n int) {
	for _, log := range logs {
		n += len(log)
	}
	return n
}

// victim returns the process into which a scenario injects faults.
func (l *stage) victim(s *scenario) *process {
	if s.worker {
		return l.worker
	}
	return l.runner
}

// replaceTheStopped starts another process whenever a fault has stopped one. The function it returns stops that,
// cleans up the dead processes and returns the frozen ones.
func (l *stage) replaceTheStopped(t *testing.T, tr *trial) (end func() (late []*process)) {
	var late []*process
	stopped := func(p *process) {
		l.replace(t, tr, p)
		if p.tap.isLate() {
			late = append(late, p)
		} else {
			l.graves.Go(p.bury)
		}
	}
	var working sync.WaitGroup
	over := make(chan struct{})
	working.Go(func() {
		for {
			select {
			case p := <-tr.stopped:
				stopped(p)
			case <-over:
				for len(tr.stopped) > 0 {
					stopped(<-tr.stopped)
				}
				return
			}
		}
	})
	return sync.OnceValue(func() []*process {
		close(over)
		working.Wait()
		return late
	})
}

// replace starts another process in place of one that was stopped.
func (l *stage) replace(t *testing.T, tr *trial, p *process) {
	if p == l.worker {
		l.startWorker(t, tr)
		return
	}
	l.forget(t, p.id)
	l.startRunner(t, tr)
}

// thaw lets the frozen processes continue, and checks that they have no effect.
func (l *stage) thaw(t *testing.T, tr *trial, late []*process, events int) {
	t.Helper()
	for _, p := range late {
		p.tap.awaitPause()
		executed := fmt.Sprint(tr.executions())
		p.gateway.Thaw()
		if tr.scenario.worker {
			p.stop()
			tr.drained(t)
			executed = fmt.Sprint(tr.executions()) // it may execute calls, see forgiveFreeze
		} else {
			system.Eventually(t, p.id+" has come to an end with what it had in flight", func() bool {
				return p.calls.Load() == 0
			})
		}
		p.bury()
		if !tr.scenario.worker {
			l.forget(t, p.id) // it has written its entry again
			system.Eventually(t, "no runner counts "+p.id+" as live", func() bool {
				return !slices.Contains(l.runner.runners(), p.id)
			})
		}
		if n := countEvents(tr.logs(t)); n != events {
			t.Errorf("%s extended the log after another runner had finished: %d events instead of %d", p.id, n, events)
		}
		if now := fmt.Sprint(tr.executions()); now != executed {
			t.Errorf("%s executed tools after another runner had finished: executions %s, before that %s", p.id, now, executed)
		}
	}
}

// compare returns how an outcome differs from that of the undisturbed run.
func (tr *trial) compare(want, got outcome) []string {
	wrongs := tr.compareCalls(want.Asked, got.Asked)
	got.Asked = want.Asked
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(outcome{})); d != "" {
		wrongs = append(wrongs, "differs from the undisturbed run (-want +got):\n"+d)
	}
	return wrongs
}

// compareCalls checks the number of model calls. A crash may cost one call for each reply that was not stored: usually
// up to two, because the next call does not wait until the last reply is stored, and more in scenarios that set
// unstored. A frozen runner may make the one call that it was about to make. Each sub-agent may cost as much.
func (tr *trial) compareCalls(want, got map[place]int) (wrongs []string) {
	crashes, extra := tr.crashed(), 0
	for at, n := range got {
		more := n - want[at]
		if extra += more; more > crashes {
			wrongs = append(wrongs, fmt.Sprintf("the model was called %d times at %+v, undisturbed %d times; there were %d "+
				"crashes",
				n, at, want[at], crashes))
		}
	}
	atOnce := 1 + tr.scenario.children // sessions that are awake at the same time
	if late := tr.askedLate(); extra > max(tr.scenario.unstored, 2)*crashes*atOnce || late > atOnce {
		wrongs = append(wrongs, fmt.Sprintf("%d model calls more than undisturbed, %d of them after a freeze; there "+
			"were %d crashes",
			extra, late, crashes))
	}
	return wrongs
}

// interruptions returns the run_resumed events of a log. There must be none if only the answer of an append was lost:
// the runner lives and reads the log to see whether the append succeeded.
func interruptions(log []schemas.Event) (wrongs []string) {
	for _, e := range log {
		if d, ok := e.Data.(*schemas.RunResumed); ok {
			wrongs = append(wrongs, fmt.Sprintf("event %d is a run_resumed from %d %s", e.Seq, d.From, d.Reason))
		}
	}
	return wrongs
}

// name returns the text as the name of a subtest.
func name(parts ...any) string {
	return strings.ReplaceAll(strings.TrimSpace(fmt.Sprintln(parts...)), " ", "_")
}
