package compare_test

import (
	"testing"

	"github.com/loopbus/loopbus/cmd/replay/internal/compare"
	"github.com/loopbus/loopbus/schemas"
)

// Two runs of the same prompt have sub-agents in other sessions, which is no difference; who says what is one.
func TestSubagentsAreNamedInOrder(t *testing.T) {
	t.Parallel()
	begins := func(session string) schemas.EventData {
		return &schemas.SubagentStart{Call: "c9", ToolCallID: "t", Session: session}
	}
	say := func(texts ...string) schemas.EventData {
		var all schemas.Messages
		for _, s := range texts {
			all = append(all, &schemas.UserMessage{Content: text(s)})
		}
		return &schemas.TranscriptReplaced{Messages: all}
	}
	a := func() *compare.Conversation {
		return read(t, "a", begins("a-c1-x"), begins("a-c2-y"), say("works in a-c1-x", "a-c2-y is done", "a-c1-x is done"))
	}
	for name, c := range map[string]struct {
		b      *compare.Conversation
		common int
		what   string
	}{
		"others in the same order": {
			read(t, "b", begins("b-c3-z"), begins("b-c4-w"), say("works in b-c3-z", "b-c4-w is done", "b-c3-z is done")), 3, ""},
		"a copy, which began none": {read(t, "b", say("works in a-c1-x", "a-c2-y is done", "a-c1-x is done")), 3, ""},
		"the other one is done": {
			read(t, "b", begins("b-c3-z"), begins("b-c4-w"), say("works in b-c3-z", "b-c3-z is done", "b-c4-w is done")), 1,
			"its text is another one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := compare.Compare(a(), c.b); d.Common != c.common || d.What != c.what {
				t.Errorf("got %+v, want %d in common, then %q", d, c.common, c.what)
			}
		})
	}
}
