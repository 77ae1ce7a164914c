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

// Results larger than what is to be kept do not prevent a compaction: they are kept with their calls, and what came
// before is summarized before the model gets them.
func TestLargeResultsAreKeptWithTheirCalls(t *testing.T) {
	t.Parallel()
	var shown []string
	r := looptest.New(t, looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		if isSummary(req) {
			return looptest.Say("summary"), nil
		}
		shown = nil
		for _, m := range req.Messages {
			shown = append(shown, string(m.MessageRole()))
		}
		last, ok := req.Messages[len(req.Messages)-1].(*schemas.UserMessage)
		if ok && last.Content.JoinText() == "look" {
			return looptest.CallTool("t1", "t2"), nil
		}
		return looptest.Say("hi"), nil
	}), func(o *host.Options) {
		o.Defaults.Compaction = schemas.CompactionPolicy{Enabled: true, ReserveTokens: 500, KeepRecentTokens: 200}
		o.Window = func(schemas.ModelRef) int64 { return 2000 }
	})
	r.Deliver("p1", looptest.Prompt(strings.Repeat("word ", 400)))
	r.Deliver("p2", looptest.Prompt("look"))
	for _, req := range r.Tools.TakeAll() {
		id, result := looptest.AnswerTo(req, strings.Repeat("line ", 500))
		r.Deliver(id, result)
	}
	r.WantEnd(schemas.EndNoToolCalls)
	ends := dataOf[*schemas.CompactionEnd](r)
	if len(ends) != 1 || ends[0].ErrorMessage != "" || ends[0].Reason != schemas.CompactThreshold {
		t.Fatalf("ended %+v; log %v", ends, r.Types())
	}
	if d := cmp.Diff([]string{"user", "assistant", "toolResult", "toolResult"}, shown); d != "" {
		t.Errorf("the model is shown (-want +got):\n%s", d)
	}
}
