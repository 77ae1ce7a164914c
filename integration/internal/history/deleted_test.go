package history_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/schemas"
)

// A deleted session may lack the commands that were sent before its deletion, and the calls of executions that it
// caused.
func TestDeletedSessionMayLackCommandsAndCalls(t *testing.T) {
	t.Parallel()
	h := good()
	delete(h.Logs, "s")
	h.Deleted = map[string]time.Time{"s": start.Add(1500 * time.Millisecond)} // between the second command and the third
	h.Forgotten = func(key string) bool { return strings.HasPrefix(key, "s/") }
	found := history.Check(h)
	if len(found) != 1 || found[0].Class != history.Lost || !slices.Equal(found[0].Commands, []string{"a"}) {
		t.Errorf("found %v, want only the loss of the command that was sent after the deletion", found)
	}
	h.Executions["other/c1"] = 1
	if found := history.Check(h); !slices.ContainsFunc(found, func(v history.Violation) bool {
		return v.Class == history.Foreign && slices.Equal(v.Commands, []string{"other/c1"})
	}) {
		t.Errorf("found %v, want the execution that no session caused, too", found)
	}
}

// A command that is sent again after a deletion is carried out again.
func TestDeletedSessionMayExecuteAgain(t *testing.T) {
	t.Parallel()
	h := good()
	h.Executions["s/c10"] = 2
	if found := history.Check(h); len(found) != 1 || found[0].Class != history.Doubled {
		t.Errorf("found %v, want one call that was executed twice", found)
	}
	h.Forgotten = func(key string) bool { return key == "s/c10" }
	for _, v := range history.Check(h) {
		t.Error(v)
	}
}

// The parent of a deleted sub-agent needs a subagent_end and a result nevertheless. A sub-agent whose parent was
// deleted needs no parent; the commands that the parent sent it are read from its own log.
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
		t.Errorf("found %v, want a sub-agent without subagent_end", found)
	}
	repeated := family() // the prompt was redelivered after the deletion; the parent has the result of the first run
	repeated.Deleted = child.Deleted
	repeated.Logs["s"][5].Data = &schemas.SubagentEnd{Call: "c3", Session: "child", Usage: schemas.Usage{TotalTokens: 7}}
	for _, v := range ofFamilies(repeated) {
		t.Error(v)
	}
	orphan, deleted := of("s")
	for _, v := range ofFamilies(orphan) {
		t.Error(v)
	}
	sent := history.BetweenSessions(orphan.Logs, deleted)
	if len(sent) != 1 || sent[0].Session != "child" || sent[0].Text != "go" ||
		sent[0].Kind != schemas.CommandSubagentPrompt {
		t.Errorf("commands %+v, want the prompt of the deleted parent", sent)
	}
	if sent := history.BetweenSessions(orphan.Logs, nil); len(sent) != 0 {
		t.Errorf("without a deletion: commands %+v, want none", sent)
	}
}
