package driver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

func TestHostDrivesARun(t *testing.T) {
	r := newRig(t, toolThenDone("t1"))
	r.deliver("p1", prompt("go"))
	if n := r.count(schemas.EventAgentEnd); n != 0 {
		t.Fatal("the run ended before its tool answered")
	}
	id, result := answerTo(r.tools.take(t), "ok")
	r.deliver(id, result)
	want := []string{
		"command_accepted", "agent_start", "turn_start", "message_start", "message_end", "command_applied",
		"message_start", "message_end", "tool_execution_start",
		"tool_execution_end", "message_start", "message_end", "turn_end",
		"turn_start", "message_start", "message_end", "turn_end", "agent_end",
	}
	if d := cmp.Diff(want, r.types()); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	for _, e := range r.events()[1:] {
		if e.CorrelationID != "p1" || e.RunID != "r2" {
			t.Errorf("%s: correlation %q, run %q", e.ID(), e.CorrelationID, e.RunID)
		}
	}
}

func TestEveryMessageTwiceChangesNothing(t *testing.T) {
	r := newRig(t, toolThenDone("t1"))
	r.deliver("p1", prompt("go"))
	r.deliver("p1", prompt("go"))
	req := r.tools.take(t)
	id, result := answerTo(req, "ok")
	r.deliver(id, result)
	before := r.types()
	r.deliver(id, result)
	r.deliver("p1", prompt("go"))
	if d := cmp.Diff(before, r.types()); d != "" {
		t.Errorf("a second delivery changed the log (-before +after):\n%s", d)
	}
	if len(r.tools.requests) != 0 {
		t.Errorf("dispatched again: %v", r.tools.requests)
	}
}

func TestAnotherHostGoesOn(t *testing.T) {
	r := newRig(t, toolThenDone("t1", "t2"))
	r.deliver("p1", prompt("go"))
	first, second := r.tools.take(t), r.tools.take(t)
	id, result := answerTo(second, "two")
	r.deliver(id, result)

	r.host = r.newHost(toolThenDone("t1", "t2"))
	id, result = answerTo(first, "one")
	r.deliver(id, result)
	if n := r.count(schemas.EventAgentEnd); n != 1 {
		t.Fatalf("%d agent_end, want 1: %v", n, r.types())
	}
	if n := r.count(schemas.EventRunResumed); n != 0 {
		t.Error("a run that only waited was said to be resumed")
	}
}

func TestARestingCallIsLookedAfterByTheNextHost(t *testing.T) {
	r := newRig(t, toolThenDone("t1"))
	r.deliver("p1", prompt("go"))
	r.tools.take(t)
	r.host = r.newHost(toolThenDone("t1"))
	r.deliver("p1", prompt("go")) // redelivered after a crash
	if len(r.tools.again) != 2 || !r.tools.again[1] {
		t.Errorf("again = %v: the second dispatch has to look first", r.tools.again)
	}
}

func TestStaleHostNoticesAndReloads(t *testing.T) {
	done := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("hi"), nil }
	r := newRig(t, modelFunc(done))
	stale := r.host
	r.deliver("p1", prompt("one"))
	r.host = r.newHost(modelFunc(done))
	r.deliver("p2", prompt("two"))
	r.host = stale
	r.deliver("p2", prompt("two"))
	r.deliver("p3", prompt("three"))
	if n := r.count(schemas.EventAgentEnd); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
}

// TestLosingTheSessionStopsTheDriver has another writer extend the log while the model is asked.
func TestLosingTheSessionStopsTheDriver(t *testing.T) {
	var r *rig
	r = newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		other, err := r.store.Open(ctx, "s1")
		if err != nil {
			return nil, err
		}
		e := r.events()[0]
		e.Seq = uint64(len(r.events()) + 1)
		e.Data = &schemas.ErrorEvent{Code: "test", Message: "someone else"}
		return callTool("t1"), other.Append(ctx, e)
	}))
	err := r.host.Deliver(t.Context(), command("p1", prompt("go")), nil)
	if !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	if len(r.tools.requests) != 0 {
		t.Error("a tool was dispatched after the session was lost")
	}
	if r.host.Held() != 0 {
		t.Error("the lost session is still held")
	}
}
