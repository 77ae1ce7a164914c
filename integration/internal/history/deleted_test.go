package history_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/schemas"
)

// What a deleted session cannot have any more is excused: what was sent to it before, and executions that it asked for.
func TestADeletedSessionHasForgotten(t *testing.T) {
	t.Parallel()
	h := good()
	delete(h.Logs, "s")
	h.Deleted = map[string]time.Time{"s": start.Add(1500 * time.Millisecond)} // between the second command and the third
	h.Forgotten = func(key string) bool { return strings.HasPrefix(key, "s/") }
	found := history.Check(h)
	if len(found) != 1 || found[0].Class != history.Lost || !slices.Equal(found[0].Commands, []string{"a"}) {
		t.Errorf("found %v, want the loss of what was sent after the deletion", found)
	}
	h.Executions["other/c1"] = 1
	if found := history.Check(h); !slices.ContainsFunc(found, func(v history.Violation) bool {
		return v.Class == history.Foreign && slices.Equal(v.Commands, []string{"other/c1"})
	}) {
		t.Errorf("found %v, and not what nobody asked for", found)
	}
}

// A command that is sent again behind a deletion is carried out again.
func TestADeletedSessionExecutesAgain(t *testing.T) {
	t.Parallel()
	h := good()
	h.Executions["s/c10"] = 2
	if found := history.Check(h); len(found) != 1 || found[0].Class != history.Doubled {
		t.Errorf("found %v, want that it was executed twice", found)
	}
	h.Forgotten = func(key string) bool { return key == "s/c10" }
	for _, v := range history.Check(h) {
		t.Error(v)
	}
}

// The parent of a sub-agent that was deleted has its end, and a result, all the same. What is left of a sub-agent whose
// parent was deleted is nobody's, and what its parent has sent it is known.
func TestFamiliesOfDeletedSessions(t *testing.T) {
	t.Parallel()
	of := func(session string) (history.History, map[string]time.Time) {
		h := family()
		delete(h.Logs, session)
		h.Deleted = map[string]time.Time{session: start}
		return h, h.Deleted
	}
	child, _ := of("child")
	for _, v := range ofFamilies(child) {
		t.Error(v)
	}
	child.Logs["s"][5].Data = new(schemas.QueueUpdate)
	if found := ofFamilies(child); len(found) != 1 || found[0].Class != history.Stuck {
		t.Errorf("found %v, want that the sub-agent has no end", found)
	}
	anew := family() // the prompt came again behind the deletion: the parent has the result of the first time
	anew.Deleted = child.Deleted
	anew.Logs["s"][5].Data = &schemas.SubagentEnd{Call: "c3", Session: "child", Usage: schemas.Usage{TotalTokens: 7}}
	for _, v := range ofFamilies(anew) {
		t.Error(v)
	}
	orphan, deleted := of("s")
	for _, v := range ofFamilies(orphan) {
		t.Error(v)
	}
	told := history.Told(orphan.Logs, deleted)
	if len(told) != 1 || told[0].Session != "child" || told[0].Text != "go" ||
		told[0].Kind != schemas.CommandSubagentPrompt {
		t.Errorf("told %+v", told)
	}
	if told := history.Told(orphan.Logs, nil); len(told) != 0 {
		t.Errorf("without a deletion: %+v", told)
	}
}
