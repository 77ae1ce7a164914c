package driver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// window lets a session have n calls of a tool dispatched at once.
func window(n int) func(*host.Options) {
	return func(o *host.Options) { o.CallWindow = n }
}

func idsOf(requests []schemas.ToolRequest) (ids []string) {
	for _, r := range requests {
		ids = append(ids, r.ToolCallID)
	}
	return ids
}

func wantDispatched(r *looptest.Rig, want ...string) []schemas.ToolRequest {
	r.T.Helper()
	got := r.Tools.TakeAll()
	if !slices.Equal(idsOf(got), want) {
		r.T.Fatalf("dispatched %v, want %v", idsOf(got), want)
	}
	return got
}

func answer(r *looptest.Rig, req schemas.ToolRequest) {
	r.T.Helper()
	id, result := looptest.AnswerTo(req, "ok")
	r.Deliver(id, result)
}

// TestCallsBeyondTheWindowAreDispatchedAsResultsCome wants all calls to begin at once, and two of them to be dispatched
// at a time, whatever the order of the results.
func TestCallsBeyondTheWindowAreDispatchedAsResultsCome(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("a", "b", "c", "d", "e"), window(2))
	r.Deliver("p1", looptest.Prompt("go"))
	if n := r.Count(schemas.EventToolExecutionStart); n != 5 {
		t.Errorf("%d calls have begun, want 5", n)
	}
	out := wantDispatched(r, "a", "b")
	answer(r, out[1])
	third := wantDispatched(r, "c")
	answer(r, third[0])
	fourth := wantDispatched(r, "d")
	answer(r, out[0])
	fifth := wantDispatched(r, "e")
	answer(r, fifth[0])
	wantDispatched(r)
	answer(r, fourth[0])
	r.WantEnd(schemas.EndNoToolCalls)
	if slices.Contains(r.Tools.Again, true) {
		t.Error("a call that this process had queued was looked for as if another might have dispatched it")
	}
}

func TestWithoutAWindowAllCallsAreDispatchedAtOnce(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("a", "b", "c"), window(-1))
	r.Deliver("p1", looptest.Prompt("go"))
	wantDispatched(r, "a", "b", "c")
}

func TestTheWindowIsForEachTool(t *testing.T) {
	t.Parallel()
	var ids []string
	for i := range host.DefaultCallWindow + 3 {
		ids = append(ids, fmt.Sprint(i))
	}
	r := looptest.New(t, looptest.ToolThenDone(ids...))
	r.Deliver("p1", looptest.Prompt("go"))
	wantDispatched(r, ids[:host.DefaultCallWindow]...)
}

// TestNextProcessDispatchesQueuedCalls has another process continue in the middle: it queues the same calls, and
// dispatches with again those that the first one may have dispatched.
func TestNextProcessDispatchesQueuedCalls(t *testing.T) {
	t.Parallel()
	model := looptest.ToolThenDone("a", "b", "c", "d")
	r := looptest.New(t, model, window(2))
	r.Deliver("p1", looptest.Prompt("go"))
	out := wantDispatched(r, "a", "b")
	r.Host = r.NewHost(model, window(2))
	answer(r, out[0])
	again := wantDispatched(r, "b", "c")
	if !slices.Equal(r.Tools.Again, []bool{false, false, true, true}) {
		t.Errorf("looked for: %v", r.Tools.Again)
	}
	answer(r, again[0])
	answer(r, again[1])
	answer(r, wantDispatched(r, "d")[0])
	r.WantEnd(schemas.EndNoToolCalls)
}

// TestRedeliveredResultDispatchesQueuedCalls is for a runner that died after it had stored the result and before it had
// dispatched the next call.
func TestRedeliveredResultDispatchesQueuedCalls(t *testing.T) {
	t.Parallel()
	model := looptest.ToolThenDone("a", "b")
	r := looptest.New(t, model, window(1))
	r.Deliver("p1", looptest.Prompt("go"))
	out := wantDispatched(r, "a")
	answer(r, out[0])
	wantDispatched(r, "b")
	r.Host = r.NewHost(model, window(1)) // no worker got b
	answer(r, out[0])
	answer(r, wantDispatched(r, "b")[0])
	r.WantEnd(schemas.EndNoToolCalls)
}

// TestAbortAnswersQueuedCallsAtOnce wants the driver to answer the calls that no process has dispatched without
// cancelling them, and to wait for the other one.
func TestAbortAnswersQueuedCallsAtOnce(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("a", "b", "c"), window(1))
	r.Deliver("p1", looptest.Prompt("go"))
	out := wantDispatched(r, "a")
	<-r.Tools.Came
	done := make(chan error, 1)
	go func() { done <- r.Host.Deliver(t.Context(), looptest.Command("x1", &schemas.Abort{}), nil) }()
	select {
	case <-r.Tools.Came: // a is cancelled
	case <-time.After(time.Minute):
		t.Fatal("the call at work was not cancelled")
	}
	answer(r, out[0])
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantDispatched(r)
	if want := []schemas.CallKey{out[0].Call}; !slices.Equal(r.Tools.Cancelled, want) {
		t.Errorf("cancelled %v, want %v", r.Tools.Cancelled, want)
	}
	if n := r.Count(schemas.EventToolExecutionEnd); n != 3 {
		t.Errorf("%d calls have ended, want 3", n)
	}
	r.WantEnd(schemas.EndAbort)
}

// TestAbortWaitsForCallsThatMayHaveBeenDispatched has a process with a smaller window continue: calls beyond its window
// were dispatched by the first process.
func TestAbortWaitsForCallsThatMayHaveBeenDispatched(t *testing.T) {
	t.Parallel()
	model := looptest.ToolThenDone("a", "b")
	r := looptest.New(t, model, window(-1))
	r.Deliver("p1", looptest.Prompt("go"))
	out := wantDispatched(r, "a", "b")
	r.Host = r.NewHost(model, window(1))
	r.Deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
	wantDispatched(r, "a") // again, if it is not found
	for range 3 {
		<-r.Tools.Came
	}
	done := make(chan error, 1)
	go func() { done <- r.Host.Deliver(t.Context(), looptest.Command("x1", &schemas.Abort{}), nil) }()
	for range out { // both are cancelled
		select {
		case <-r.Tools.Came:
		case <-time.After(time.Minute):
			t.Fatal("a call was not cancelled")
		}
	}
	answer(r, out[0])
	answer(r, out[1])
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.WantEnd(schemas.EndAbort)
}

// TestCallWaitingForApprovalTakesNoPlaceInTheWindow wants the calls after one that waits for approval to be dispatched.
func TestCallWaitingForApprovalTakesNoPlaceInTheWindow(t *testing.T) {
	t.Parallel()
	asks := func(o *host.Options) {
		o.Hooks.BeforeToolCall = func(_ context.Context, c driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			return driver.BeforeToolCallResult{Ask: c.ToolCall.ID == "a"}, nil
		}
	}
	r := looptest.New(t, looptest.ToolThenDone("a", "b", "c"), window(1), asks)
	r.Deliver("p1", looptest.Prompt("go"))
	answer(r, wantDispatched(r, "b")[0])
	last := wantDispatched(r, "c")
	r.Deliver("ok", &schemas.Approve{ApprovalAnswer: schemas.ApprovalAnswer{Call: "c9"}})
	first := wantDispatched(r, "a") // it comes before c, which was dispatched before
	answer(r, last[0])
	answer(r, first[0])
	r.WantEnd(schemas.EndNoToolCalls)
}
