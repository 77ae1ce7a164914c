package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

func TestHostDrivesARun(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"))
	r.Deliver("p1", looptest.Prompt("go"))
	if n := r.Count(schemas.EventAgentEnd); n != 0 {
		t.Fatal("the run ended before its tool answered")
	}
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
	r.Deliver(id, result)
	want := []string{
		"command_accepted", "agent_start", "turn_start", "message_start", "message_end", "command_applied",
		"message_start", "message_end", "tool_execution_start",
		"tool_execution_end", "message_start", "message_end", "turn_end",
		"turn_start", "message_start", "message_end", "turn_end", "agent_end",
	}
	if d := cmp.Diff(want, r.Types()); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	for _, e := range r.Events()[1:] {
		if e.CorrelationID != "p1" || e.RunID != "r2" {
			t.Errorf("%s: correlation %q, run %q", e.ID(), e.CorrelationID, e.RunID)
		}
	}
}

func TestEveryMessageTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"))
	r.Deliver("p1", looptest.Prompt("go"))
	r.Deliver("p1", looptest.Prompt("go"))
	req := r.Tools.Take(t)
	id, result := looptest.AnswerTo(req, "ok")
	r.Deliver(id, result)
	before := r.Types()
	r.Deliver(id, result)
	r.Deliver("p1", looptest.Prompt("go"))
	if d := cmp.Diff(before, r.Types()); d != "" {
		t.Errorf("a second delivery changed the log (-before +after):\n%s", d)
	}
	if len(r.Tools.Requests) != 0 {
		t.Errorf("dispatched again: %v", r.Tools.Requests)
	}
}

func TestAnotherHostContinuesTheRun(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1", "t2"))
	r.Deliver("p1", looptest.Prompt("go"))
	first, second := r.Tools.Take(t), r.Tools.Take(t)
	id, result := looptest.AnswerTo(second, "two")
	r.Deliver(id, result)

	r.Host = r.NewHost(looptest.ToolThenDone("t1", "t2"))
	id, result = looptest.AnswerTo(first, "one")
	r.Deliver(id, result)
	if n := r.Count(schemas.EventAgentEnd); n != 1 {
		t.Fatalf("%d agent_end, want 1: %v", n, r.Types())
	}
	if n := r.Count(schemas.EventRunResumed); n != 0 {
		t.Error("a run that only waited was said to be resumed")
	}
}

func TestNextHostDispatchesARestingCallWithAgain(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"))
	r.Deliver("p1", looptest.Prompt("go"))
	r.Tools.Take(t)
	r.Host = r.NewHost(looptest.ToolThenDone("t1"))
	r.Deliver("p1", looptest.Prompt("go")) // redelivered after a crash
	if len(r.Tools.Again) != 2 || !r.Tools.Again[1] {
		t.Errorf("again = %v: the second dispatch has to look first", r.Tools.Again)
	}
}

func TestStaleHostNoticesAndReloads(t *testing.T) {
	t.Parallel()
	done := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("hi"), nil
	}
	r := looptest.New(t, looptest.ModelFunc(done))
	stale := r.Host
	r.Deliver("p1", looptest.Prompt("one"))
	r.Host = r.NewHost(looptest.ModelFunc(done))
	r.Deliver("p2", looptest.Prompt("two"))
	r.Host = stale
	r.Deliver("p2", looptest.Prompt("two"))
	r.Deliver("p3", looptest.Prompt("three"))
	if n := r.Count(schemas.EventAgentEnd); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
}

// TestLosingTheSessionStopsTheDriver has another writer extend the log during a model call.
func TestLosingTheSessionStopsTheDriver(t *testing.T) {
	t.Parallel()
	var r *looptest.Rig
	r = looptest.New(t, looptest.ModelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		other, err := r.Store.Open(ctx, "s1")
		if err != nil {
			return nil, err
		}
		e := r.Events()[0]
		e.Seq = uint64(len(r.Events()) + 1)
		e.Data = &schemas.ErrorEvent{Code: "test", Message: "someone else"}
		return looptest.CallTool("t1"), errors.Join(other.Append(ctx, e), other.Flush(ctx))
	}))
	err := r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil)
	if !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	if len(r.Tools.Requests) != 0 {
		t.Error("a tool was dispatched after the session was lost")
	}
	if r.Host.Loaded() != 0 {
		t.Error("the lost session is still loaded")
	}
}
