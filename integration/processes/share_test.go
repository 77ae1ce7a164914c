//go:build unix

package processes_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// patient sets a takeover time so long that the test fails if a runner waits for it.
const patient = "10m"

// TestRunnersShareThePartitions starts and stops runners, and checks their shares of the partitions.
func TestRunnersShareThePartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := []string{"r1", "r2", "r3", "r4"}
	var runners []*command
	for i, id := range ids {
		runners = append(runners, w.runner(id, responses{text("done")}, nil, "--takeover", patient))
		w.wantShared(ids[:i+1]...)
	}
	if err := runners[1].Terminate(); err != nil {
		t.Fatal(err)
	}
	w.wantShared("r1", "r3", "r4")
}

// wantShared waits until one of the runners reads each partition, and checks that none reads more than five quarters of
// the mean, rounded up.
func (w *world) wantShared(ids ...string) {
	w.t.Helper()
	most := (5*partitions + 4*len(ids) - 1) / (4 * len(ids))
	var shares [][]int
	system.Eventually(w.t, fmt.Sprintf("%v read every partition once", ids), func() bool {
		shares = shares[:0]
		var all []int
		for _, id := range ids {
			mine := w.partitionsOf(id)
			shares, all = append(shares, mine), append(all, mine...)
		}
		slices.Sort(all)
		return len(all) == partitions && len(slices.Compact(all)) == partitions
	})
	for i, mine := range shares {
		if len(mine) > most {
			w.t.Errorf("of %d runners, %s reads %v, which are more than %d partitions", len(ids), ids[i], mine, most)
		}
	}
}

// TestAStoppedRunnerHandsOver stops a runner whose sessions are all awake. Another one continues them without waiting
// for a timeout.
func TestAStoppedRunnerHandsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.runner("first", responses{stuck}, nil, "--takeover", patient)
	var sessions []string
	for i := range 20 {
		s := fmt.Sprintf("s%d", i)
		sessions = append(sessions, s)
		w.prompt(s, "go")
		w.until(s, "its reply", bustest.Nth(2, schemas.EventMessageStart))
	}
	w.runner("second", responses{text("done")}, nil, "--takeover", patient)
	since := time.Now()
	if err := first.Terminate(); err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	for _, s := range sessions {
		log := w.ended(s)
		at := slices.IndexFunc(log, func(e schemas.Event) bool { return e.Source == source("second") })
		waits = append(waits, log[at].Time.Sub(since))
		if o := outcomeOf(log); !slices.Equal(o.Replies, []string{"done"}) ||
			!slices.Equal(o.Resumed, []string{whileStreaming}) {
			t.Errorf("session %s: %+v", s, o)
		}
	}
	slices.Sort(waits)
	t.Logf("from SIGTERM to a session's next event: median %s, longest %s",
		waits[len(waits)/2].Round(time.Millisecond), waits[len(waits)-1].Round(time.Millisecond))
	if last := waits[len(waits)-1]; last > time.Second+slack {
		t.Errorf("a session continued only %s after SIGTERM", last)
	}
	<-first.Done()
	if lines := first.logged(func(e entry) bool { return e["level"] == "ERROR" }); len(lines) > 0 {
		t.Errorf("the runner logged failures: %v", lines)
	}
}
