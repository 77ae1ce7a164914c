package crashpoints_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// play runs a scenario in a new session of the stage, with these faults one after the other, and returns what came of
// it once everything has settled. What is wrong whatever the scenario fails the test here.
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
	if len(faults) == 1 { // the last points of a run are passed when all there is to see of it is over
		system.Eventually(t, "the run comes to "+faults[0].at.String(), func() bool { return tr.crashed() > 0 })
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

func countEvents(logs map[string][]schemas.Event) (n int) {
	for _, log := range logs {
		n += len(log)
	}
	return n
}

// victim is the process whose points a scenario is about.
func (l *stage) victim(s *scenario) *process {
	if s.worker {
		return l.worker
	}
	return l.runner
}

// replaceTheStopped starts another process whenever a fault has stopped one. The function it returns ends that and
// returns those that are frozen; the dead ones are buried.
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

// replace has another process in the place of one that was stopped.
func (l *stage) replace(t *testing.T, tr *trial, p *process) {
	if p == l.worker {
		l.startWorker(t, tr)
		return
	}
	l.forget(t, p.id)
	l.startRunner(t, tr)
}

// thaw lets those go on that were frozen, and wants nothing to come of it.
func (l *stage) thaw(t *testing.T, tr *trial, late []*process, events int) {
	t.Helper()
	for _, p := range late {
		p.tap.awaitPause()
		executed := fmt.Sprint(tr.executions())
		p.gateway.Thaw()
		if tr.scenario.worker {
			p.stop()
			tr.drained(t)
			executed = fmt.Sprint(tr.executions()) // it may have, see forgiveFreeze
		} else {
			system.Eventually(t, p.id+" has come to an end with what it had in flight", func() bool {
				return p.calls.Load() == 0
			})
		}
		p.bury()
		if !tr.scenario.worker {
			l.forget(t, p.id) // it has announced itself again
			system.Eventually(t, "nobody takes "+p.id+" for live", func() bool {
				return !slices.Contains(l.runner.runners(), p.id)
			})
		}
		if n := countEvents(tr.logs(t)); n != events {
			t.Errorf("%s went on after another had finished: %d events instead of %d", p.id, n, events)
		}
		if now := fmt.Sprint(tr.executions()); now != executed {
			t.Errorf("%s went on after another had finished: tools were executed %s, before that %s", p.id, now, executed)
		}
	}
}

// compare returns where an outcome is not that of the undisturbed run.
func (tr *trial) compare(want, got outcome) []string {
	wrongs := tr.compareCalls(want.Asked, got.Asked)
	got.Asked = want.Asked
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(outcome{})); d != "" {
		wrongs = append(wrongs, "not as undisturbed (-want +got):\n"+d)
	}
	return wrongs
}

// compareCalls allows a crash to cost one call for each reply that was not stored. That may be two: the next call does
// not wait until the reply before is; three where there are more before that had nothing to show. A runner that was
// frozen may make the one call that it was about to make. Each sub-agent may cost as much.
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

// interruptions are the places where a runner resumed a run: none, where an append got no answer and the runner, which
// lived, found out what became of it.
func interruptions(log []schemas.Event) (wrongs []string) {
	for _, e := range log {
		if d, ok := e.Data.(*schemas.RunResumed); ok {
			wrongs = append(wrongs, fmt.Sprintf("event %d is a run_resumed from %d %s", e.Seq, d.From, d.Reason))
		}
	}
	return wrongs
}

// name is a name that a test can be called by.
func name(parts ...any) string {
	return strings.ReplaceAll(strings.TrimSpace(fmt.Sprintln(parts...)), " ", "_")
}
