package driver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// TestEveryBudgetIsCheckedBeforeEachRequest has a model that calls tools for ever, at 60 tokens and half a dollar a
// request. Each budget is used up by the second request, so there is no third.
func TestEveryBudgetIsCheckedBeforeEachRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits  schemas.Limits
		warning schemas.BudgetWarning
	}{
		"tokens of a run": {schemas.Limits{MaxTokens: 100},
			schemas.BudgetWarning{Scope: schemas.BudgetRun, Tokens: 60, MaxTokens: 100}},
		"cost of a run": {schemas.Limits{MaxCost: 1},
			schemas.BudgetWarning{Scope: schemas.BudgetRun, Cost: 0.5, MaxCost: 1}},
		"tokens of a session": {schemas.Limits{SessionMaxTokens: 100},
			schemas.BudgetWarning{Scope: schemas.BudgetSession, Tokens: 60, MaxTokens: 100}},
		"cost of a session": {schemas.Limits{SessionMaxCost: 1},
			schemas.BudgetWarning{Scope: schemas.BudgetSession, Cost: 0.5, MaxCost: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			model := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
				asked++
				m := &schemas.AssistantMessage{StopReason: schemas.StopToolUse, Content: schemas.Contents{
					schemas.ToolCall{ID: fmt.Sprint("t", asked), Name: "nobody_serves_it", Arguments: []byte(`{}`)}}}
				m.Usage = schemas.Usage{TotalTokens: 60, Cost: schemas.Cost{Total: 0.5}}
				return m, nil
			})
			c.limits.WarnShare = 0.5
			r := looptest.New(t, model, func(o *host.Options) { o.Defaults.Limits = c.limits })
			r.Deliver("p1", looptest.Prompt("go"))
			if end := end(r); end.TerminationReason != schemas.EndBudget || asked != 2 {
				t.Errorf("after %d requests the run ends with %s", asked, end.TerminationReason)
			}
			if d := cmp.Diff([]schemas.EventData{&c.warning}, retries(r)); d != "" {
				t.Errorf("warnings (-want +got):\n%s", d)
			}
		})
	}
}
