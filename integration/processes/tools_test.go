//go:build unix

package processes_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// forget takes a worker out of those that announce tools, as the end of its announcements' time would.
func (w *world) forget(worker string) {
	w.t.Helper()
	announced, err := w.conn.JetStream().KeyValue(w.t.Context(), schemas.BucketTools)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tool := range served {
		if err := announced.Purge(w.t.Context(), schemas.AnnouncementKey(tool, worker),
			jetstream.PurgeTTL(time.Minute)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestNobodyServesTheTool has the only worker of a tool die before the model calls it.
func TestNobodyServesTheTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	only := w.toolworker("w1", nil)
	w.runner("r1", responses{calls(bash(note("ran"))), text("I see")}, nil, "--unserved-after", "1s")
	if err := only.Kill(); err != nil {
		t.Fatal(err)
	}
	w.prompt("s1")
	w.until("s1", "the call", nth(schemas.EventToolExecutionStart, 1))
	w.forget("w1")
	want := outcome{
		Reasons: []schemas.TerminationReason{schemas.EndNoToolCalls}, Replies: []string{"", "I see"},
		Results: []string{"no worker serves tool bash"},
	}
	if d := cmp.Diff(want, outcomeOf(w.ended("s1"))); d != "" {
		t.Errorf("the run (-want +got):\n%s", d)
	}
}

// TestAnAbortedCallIsNotBegunLater aborts a run whose call waits for a worker. One that comes after the end of the run
// has never heard that the call was cancelled.
func TestAnAbortedCallIsNotBegunLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	only := w.toolworker("w1", nil)
	w.runner("r1", responses{calls(bash(note("ran"))), text("never said")}, nil, "--abort-grace", "1s")
	if err := only.Kill(); err != nil {
		t.Fatal(err)
	}
	w.prompt("s1")
	system.Eventually(t, "the call waits", func() bool { return w.stored(schemas.StreamTools) == 1 })
	w.send("s1", schemas.CommandAbort, "", "{}")
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
