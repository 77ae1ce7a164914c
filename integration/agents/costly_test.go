package agents_test

import (
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// The server of a model reports the cost of a reply. Costs whose sum exceeds the range of numbers, and sums of tokens
// that readers cannot represent exactly, do not prevent the end of a run.
func TestCostsBeyondNumbers(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.model.usage = schemas.Usage{TotalTokens: 9007199254740991, Input: 9007199254740991,
		Cost: schemas.Cost{Input: 1.7e308, Total: 1.7e308}}
	r.Prompt(t, "s1", `call note {"a":1}`)
	log := r.Until(t, "s1", "the end", system.Ends(1))
	if u := system.DataOf[*schemas.AgentEnd](log)[0].Usage; u.TotalTokens != 9007199254740991 || u.Cost.Total != 2e9 {
		t.Errorf("used %+v", u)
	}
	r.Verify(t, "s1")
}
