package driver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

const textProfileSpent = "No model was called: the budget of the profile is used up"

// spentBudget is a host whose profile has nothing left once its counters are full; they accept any usage.
func spentBudget(c *counters) func(*host.Options) {
	close(c.free)
	c.adding = make(chan struct{}, 1000)
	return team(c)
}

// exhaust uses up what a profile has.
func (c *counters) exhaust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = 1000
}

// A profile whose budget is used up gets no summary: no model is called, and the log has the reason for the sender. The
// context stays as it is, and a branch is left where it was.
func TestSpentProfileBudgetRefusesSummaries(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]func(r *looptest.Rig) schemas.CommandData{
		"compact":  func(*looptest.Rig) schemas.CommandData { return new(schemas.Compact) },
		"navigate": func(r *looptest.Rig) schemas.CommandData { return toFirst(r) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, asked := newCounters(), 0
			r := summing(t, func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
				asked++
				return looptest.Say("summary"), nil
			}, spentBudget(c))
			c.exhaust()
			before := len(folded(r).Messages)
			r.Deliver("k1", command(r))
			if asked > 0 {
				t.Errorf("the model was asked %d times", asked)
			}
			refused := refusals(r)
			if len(refused) != 1 || !strings.HasPrefix(refused[0], "k1 ") || !strings.Contains(refused[0], textProfileSpent) {
				t.Errorf("refused %q", refused)
			}
			said := 0
			for _, d := range dataOf[*schemas.SummaryEnd](r) {
				if d.Error != "" && !d.Retry && strings.Contains(d.Message.Message.(*schemas.AssistantMessage).ErrorMessage,
					textProfileSpent) {
					said++
				}
			}
			if said != 1 {
				t.Errorf("the log says %d times that the budget is used up: %v", said, r.Types())
			}
			s := folded(r)
			if s.Busy() || len(s.Messages) != before {
				t.Errorf("busy %t, with %d messages of %d", s.Busy(), len(s.Messages), before)
			}
			r.Deliver("l1", &schemas.Name{Name: "goes on"})
			if d := cmp.Diff("goes on", folded(r).Name); d != "" {
				t.Errorf("name (-want +got):\n%s", d)
			}
		})
	}
}

// If a compaction is due and the profile's budget is used up, the run ends for its budget, and the compaction that
// follows has that reason: no model is called.
func TestSpentProfileBudgetRefusesAThresholdCompaction(t *testing.T) {
	t.Parallel()
	c, asked := newCounters(), 0
	r := looptest.New(t, sums(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		asked++
		return looptest.Say("summary"), nil
	}), spentBudget(c), func(o *host.Options) {
		o.Defaults.Compaction = schemas.CompactionPolicy{Enabled: true, ReserveTokens: 500, KeepRecentTokens: 100}
		o.Window = func(schemas.ModelRef) int64 { return 2000 }
	})
	r.Deliver("p1", looptest.Prompt(strings.Repeat("word ", 1300)))
	c.exhaust()
	r.Deliver("p2", looptest.Prompt(strings.Repeat("word ", 1300)))
	ends := dataOf[*schemas.CompactionEnd](r)
	if asked > 0 || len(ends) == 0 || !strings.Contains(ends[len(ends)-1].ErrorMessage, textProfileSpent) {
		t.Errorf("asked %d times, ended %+v; log %v", asked, ends, r.Types())
	}
	runs := dataOf[*schemas.AgentEnd](r)
	if len(runs) != 2 || runs[1].TerminationReason != schemas.EndBudget {
		t.Errorf("runs ended %+v", runs)
	}
}
