package agents_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// A service can replace the arguments of a call by some with which no sub-agent can begin, because its session would
// reject the prompt: the call is refused, and nothing is begun.
func TestASubagentThatCannotBeginIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	ref := schemas.HookRef{Hook: schemas.HookBeforeToolCall, Service: "editor"}
	r.profile("edited", schemas.Profile{Hooks: []schemas.HookRef{ref}})
	bad := []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"prompt": "x", "name": strings.Repeat("n", 300)}, "/name"},
		{map[string]any{"prompt": "x", "tools": make([]string, 2000)}, "tool"},
		{map[string]any{"prompt": strings.Repeat("x", 300_000)}, "/text"},
		{map[string]any{"prompt": strings.Repeat("\x01", 160_000)}, "524288"},
	}
	r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
		var i int
		if _, err := fmt.Sscanf(req.Session, "s%d", &i); err != nil {
			t.Error(err)
		}
		return &schemas.HookAnswer{Args: raw(bad[i].args)}
	})
	for i, c := range bad {
		session := fmt.Sprintf("s%d", i)
		r.follow(session, "edited")
		r.Prompt(t, session, calls(map[string]any{"prompt": "hi"}))
		log := r.Until(t, session, "the end", system.Ends(1))
		if got := results(log); len(got) != 1 || !strings.Contains(got[0], c.want) || len(got[0]) > 2000 {
			t.Errorf("%s: results %.2000q, want one with %q", session, got, c.want)
		}
		if n := len(began(log)); n > 0 {
			t.Errorf("%s: %d sub-agents have begun", session, n)
		}
	}
}
