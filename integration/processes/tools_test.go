//go:build unix

package processes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// forget deletes the announcements of a worker, as their TTL would.
func (w *world) forget(worker string) {
	w.t.Helper()
	announced, err := w.conn.JetStream().KeyValue(w.t.Context(), schemas.BucketTools)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tool := range served {
		if err := announced.Delete(w.t.Context(), schemas.AnnouncementKey(tool, worker)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestNobodyServesTheTool kills the only worker of a tool before the model calls the tool.
func TestNobodyServesTheTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	only := w.toolworker("w1", nil)
	w.runner("r1", responses{calls(bash(note("ran"))), text("I see")}, nil, "--unserved-after", "1s")
	if err := only.Kill(); err != nil {
		t.Fatal(err)
	}
	w.prompt("s1", "go")
	w.until("s1", "the call", bustest.Nth(1, schemas.EventToolExecutionStart))
	w.forget("w1")
	want := outcome{
		Reasons: []schemas.TerminationReason{schemas.EndNoToolCalls}, Replies: []string{"", "I see"},
		Results: []string{"no worker serves tool bash"},
	}
	if d := cmp.Diff(want, outcomeOf(w.ended("s1"))); d != "" {
		t.Errorf("the run (-want +got):\n%s", d)
	}
}

// TestAnAbortedCallIsNotBegunLater aborts a run whose call waits for a worker. A worker that starts after the end of
// the run has not received the cancellation of the call.
func TestAnAbortedCallIsNotBegunLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	only := w.toolworker("w1", nil)
	w.runner("r1", responses{calls(bash(note("ran"))), text("never said")}, nil, "--abort-grace", "1s")
	if err := only.Kill(); err != nil {
		t.Fatal(err)
	}
	w.prompt("s1", "go")
	system.Eventually(t, "the call waits", func() bool { return w.stored(schemas.StreamTools) == 1 })
	bustest.Command(t, w.session("s1"), &schemas.Abort{})
	w.until("s1", "the end of the run", system.Ends(1))
	w.toolworker("w2", nil)
	want := outcome{
		Reasons: []schemas.TerminationReason{schemas.EndAbort}, Replies: []string{""}, Results: []string{"Operation aborted"},
	}
	got := outcomeOf(w.ended("s1"))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the run (-want +got):\n%s", d)
	}
	if n := len(w.counted("count")); n > 0 {
		t.Error("the call was executed")
	}
}
