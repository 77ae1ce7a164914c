package waiting_test

import (
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/waiting"
	"github.com/loopbus/loopbus/schemas"
)

// Said is said once of each call that is late, and that it has begun only where something was said before. Calls that
// wait for somebody's approval, that need no worker, or of which nothing can be known any more, wait for none.
func TestLateCalls(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	var c waiting.Calls
	event := func(seq uint64, after time.Duration, data schemas.EventData) {
		c.Event(schemas.Event{Session: "s1", Seq: seq, Time: begun, Data: data}, begun.Add(after))
	}
	late := func(after time.Duration, want ...string) {
		t.Helper()
		if got := c.Late(begun.Add(after)); !slices.Equal(got, want) {
			t.Errorf("after %s: got %q, want %q", after, got, want)
		}
	}
	update := func(key schemas.CallKey, want string) {
		t.Helper()
		if got := c.Update(schemas.Update{Session: "s1", Data: &schemas.ToolExecutionUpdate{Call: key}}); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	line := func(what string) string {
		return "(waiting for a worker: none has started " + what + " in 5s)"
	}
	late(time.Hour)
	event(1, waiting.Late*100, &schemas.ToolExecutionStart{ToolName: "old"})
	for seq, name := range []string{"bash", "read", "ask", "agent", "quick", "grep"} {
		event(uint64(seq+9), 0, &schemas.ToolExecutionStart{ToolName: name})
	}
	event(20, 0, &schemas.ApprovalRequested{Call: "c11"})
	event(21, 0, &schemas.SubagentStart{Call: "c12"})
	event(22, time.Second, &schemas.ToolExecutionEnd{Call: "c13"})
	update("c14", "")
	late(4 * time.Second)
	late(5*time.Second, line("bash c9"), line("read c10"))
	event(23, 6*time.Second, &schemas.ApprovalResolved{Call: "c11", Approved: true})
	late(10 * time.Second)
	update("c9", "(a worker has started bash c9)")
	update("c9", "")
	late(11*time.Second, line("ask c11"))
	event(24, 12*time.Second, &schemas.ToolExecutionStart{ToolName: "last"})
	event(25, 12*time.Second, &schemas.AgentEnd{})
	late(time.Minute)
	update("c10", "")
}
