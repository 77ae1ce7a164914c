package driver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// window lets a session have n calls of a tool with its workers.
func window(n int) func(*driver.HostOptions) {
	return func(o *driver.HostOptions) { o.CallsInQueue = n }
}

// takeAll takes what has been dispatched.
func (q *queue) takeAll() []schemas.ToolRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.requests
	q.requests = nil
	return all
}

func idsOf(requests []schemas.ToolRequest) (ids []string) {
	for _, r := range requests {
		ids = append(ids, r.ToolCallID)
	}
	return ids
}

func (r *rig) wantDispatched(want ...string) []schemas.ToolRequest {
	r.t.Helper()
	got := r.tools.takeAll()
	if !slices.Equal(idsOf(got), want) {
		r.t.Fatalf("dispatched %v, want %v", idsOf(got), want)
	}
	return got
}

func (r *rig) answer(req schemas.ToolRequest) {
	r.t.Helper()
	id, result := answerTo(req, "ok")
	r.deliver(id, result)
}

// TestCallsBeyondTheWindowAreDispatchedAsResultsCome wants all calls begun at once, and two of them out at a time, whatever
// the order of the results.
func TestCallsBeyondTheWindowAreDispatchedAsResultsCome(t *testing.T) {
	r := newRig(t, toolThenDone("a", "b", "c", "d", "e"), window(2))
	r.deliver("p1", prompt("go"))
	if n := r.count(schemas.EventToolExecutionStart); n != 5 {
		t.Errorf("%d calls have begun, want 5", n)
	}
	out := r.wantDispatched("a", "b")
	r.answer(out[1])
	third := r.wantDispatched("c")
	r.answer(third[0])
	fourth := r.wantDispatched("d")
	r.answer(out[0])
	fifth := r.wantDispatched("e")
	r.answer(fifth[0])
	r.wantDispatched()
	r.answer(fourth[0])
	r.wantEnd(schemas.EndNoToolCalls)
	if slices.Contains(r.tools.again, true) {
		t.Error("a call that this process held was looked for as if another might have dispatched it")
	}
}

func TestWithoutAWindowAllCallsAreDispatchedAtOnce(t *testing.T) {
	r := newRig(t, toolThenDone("a", "b", "c"), window(-1))
	r.deliver("p1", prompt("go"))
	r.wantDispatched("a", "b", "c")
}

func TestTheWindowIsForEachTool(t *testing.T) {
	var ids []string
	for i := range driver.DefaultCallsInQueue + 3 {
		ids = append(ids, fmt.Sprint(i))
	}
	r := newRig(t, toolThenDone(ids...))
	r.deliver("p1", prompt("go"))
	r.wantDispatched(ids[:driver.DefaultCallsInQueue]...)
}

// TestHeldCallsAreTakenOver has another process take the session up in the middle: it holds the same calls, and looks for
// those that the first one may have dispatched.
func TestHeldCallsAreTakenOver(t *testing.T) {
	model := toolThenDone("a", "b", "c", "d")
	r := newRig(t, model, window(2))
	r.deliver("p1", prompt("go"))
	out := r.wantDispatched("a", "b")
	r.host = r.newHost(model, window(2))
	r.answer(out[0])
	again := r.wantDispatched("b", "c")
	if !slices.Equal(r.tools.again, []bool{false, false, true, true}) {
		t.Errorf("looked for: %v", r.tools.again)
	}
	r.answer(again[0])
	r.answer(again[1])
	r.answer(r.wantDispatched("d")[0])
	r.wantEnd(schemas.EndNoToolCalls)
}

// TestAResultThatComesAgainDispatchesWhatItsFirstDeliveryDidNot is a runner that died after it had stored the result and
// before it had dispatched the next call.
func TestAResultThatComesAgainDispatchesWhatItsFirstDeliveryDidNot(t *testing.T) {
	model := toolThenDone("a", "b")
	r := newRig(t, model, window(1))
	r.deliver("p1", prompt("go"))
	out := r.wantDispatched("a")
	r.answer(out[0])
	r.wantDispatched("b")
	r.host = r.newHost(model, window(1)) // nobody has seen b
	r.answer(out[0])
	r.answer(r.wantDispatched("b")[0])
	r.wantEnd(schemas.EndNoToolCalls)
}

// TestAbortAnswersHeldCallsAtOnce wants the calls that nobody has handed over answered without cancelling them, and the
// other one waited for.
func TestAbortAnswersHeldCallsAtOnce(t *testing.T) {
	r := newRig(t, toolThenDone("a", "b", "c"), window(1))
	r.deliver("p1", prompt("go"))
	out := r.wantDispatched("a")
	<-r.tools.came
	done := make(chan error, 1)
	go func() { done <- r.host.Deliver(t.Context(), command("x1", &schemas.Abort{}), nil) }()
	select {
	case <-r.tools.came: // a is cancelled
	case <-time.After(time.Minute):
		t.Fatal("the call at work was not cancelled")
	}
	r.answer(out[0])
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.wantDispatched()
	if want := []schemas.CallKey{out[0].Call}; !slices.Equal(r.tools.cancelled, want) {
		t.Errorf("cancelled %v, want %v", r.tools.cancelled, want)
	}
	if n := r.count(schemas.EventToolExecutionEnd); n != 3 {
		t.Errorf("%d calls have ended, want 3", n)
	}
	r.wantEnd(schemas.EndAbort)
}

// TestAbortWaitsForAHeldCallThatAnotherProcessMayHaveDispatched has a process with a smaller window take over: what it holds is
// with the workers already.
func TestAbortWaitsForAHeldCallThatAnotherProcessMayHaveDispatched(t *testing.T) {
	model := toolThenDone("a", "b")
	r := newRig(t, model, window(-1))
	r.deliver("p1", prompt("go"))
	out := r.wantDispatched("a", "b")
	r.host = r.newHost(model, window(1))
	r.deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
	r.wantDispatched("a") // again, if it is not found
	for range 3 {
		<-r.tools.came
	}
	done := make(chan error, 1)
	go func() { done <- r.host.Deliver(t.Context(), command("x1", &schemas.Abort{}), nil) }()
	for range out { // both are cancelled
		select {
		case <-r.tools.came:
		case <-time.After(time.Minute):
			t.Fatal("a call was not cancelled")
		}
	}
	r.answer(out[0])
	r.answer(out[1])
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.wantEnd(schemas.EndAbort)
}

// TestACallThatWaitsForApprovalTakesNoRoom wants the calls behind one that nobody has approved yet to go on.
func TestACallThatWaitsForApprovalTakesNoRoom(t *testing.T) {
	asks := func(o *driver.HostOptions) {
		o.Hooks.BeforeToolCall = func(_ context.Context, c driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			return driver.BeforeToolCallResult{Ask: c.ToolCall.ID == "a"}, nil
		}
	}
	r := newRig(t, toolThenDone("a", "b", "c"), window(1), asks)
	r.deliver("p1", prompt("go"))
	r.answer(r.wantDispatched("b")[0])
	last := r.wantDispatched("c")
	r.deliver("ok", &schemas.Approve{})
	first := r.wantDispatched("a") // it comes before c, which is out already
	r.answer(last[0])
	r.answer(first[0])
	r.wantEnd(schemas.EndNoToolCalls)
}
