package driver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// strict is a toolbox whose echo requires a text.
type strict struct{}

func (strict) Definitions(context.Context) ([]schemas.ToolDefinition, error) {
	return []schemas.ToolDefinition{{Name: "echo", Parameters: []byte(
		`{"type":"object","properties":{"v":{"type":"string"}},"required":["v"]}`)}}, nil
}

// askingStrictly is asking with that toolbox.
func askingStrictly(o *host.Options) {
	asking(o)
	o.Toolbox = strict{}
}

// edited approves a call with other arguments.
func edited(call schemas.CallKey, args string) *schemas.Approve {
	return &schemas.Approve{ApprovalAnswer: decision(call, "ann", "not that"), Args: []byte(args)}
}

// TestACallIsApprovedWithOtherArguments has another host take each step. The tool and the hook after it get the
// approved arguments, coerced like a model's, and the log has both sets of arguments and who changed what.
func TestACallIsApprovedWithOtherArguments(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	watching := func(o *host.Options) {
		o.Hooks.AfterToolCall = func(_ context.Context, c driver.AfterToolCall) (driver.AfterToolCallResult, error) {
			seen <- string(c.Args)
			return driver.AfterToolCallResult{}, nil
		}
	}
	r := looptest.New(t, nil)
	next := func(id string, data schemas.CommandData) {
		t.Helper()
		r.Host = r.NewHost(looptest.ToolThenDone("t1"), askingStrictly, watching)
		r.Deliver(id, data)
	}
	next("p1", looptest.Prompt("go"))
	next("a1", edited("c9", `{"v":7}`))
	next("a1", edited("c9", `{"v":7}`))
	req := r.Tools.Take(t)
	if want := `{"v":"7"}`; string(req.Arguments) != want {
		t.Errorf("the tool is given %s, want %s", req.Arguments, want)
	}
	id, result := looptest.AnswerTo(req, "ok")
	next(id, result)
	r.WantEnd(schemas.EndNoToolCalls)
	wantApprovals(r, requested("c9", "t1"), &schemas.ApprovalResolved{Call: "c9", ToolCallID: "t1", Approved: true,
		By: "ann", Reason: "not that", Args: []byte(`{"v":"7"}`)})
	if got := <-seen; got != `{"v":"7"}` {
		t.Errorf("the hook behind it sees %s", got)
	}
	for _, e := range r.Events() {
		d, ok := e.Data.(*schemas.CommandAccepted)
		if ok && d.CommandID == "a1" && !strings.Contains(string(d.Data), `{"v":7}`) {
			t.Errorf("the command is recorded as %s", d.Data)
		}
	}
}

// TestInvalidEditedArgumentsAreRejected wants a reason, and the call to wait for another approval.
func TestInvalidEditedArgumentsAreRejected(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"), askingStrictly)
	r.Deliver("p1", looptest.Prompt("go"))
	r.Deliver("a1", edited("c9", `{"w":1}`))
	r.Deliver("a1", edited("c9", `{"w":1}`))
	r.Deliver("a2", edited("c8", `{"w":1}`))
	if len(r.Tools.Requests) != 0 {
		t.Fatal("the call was dispatched")
	}
	r.Deliver("a3", &schemas.Approve{ApprovalAnswer: decision("c9", "ann", "")})
	r.Deliver("a4", edited("c9", `{"w":1}`))
	wantApprovals(r, requested("c9", "t1"),
		&schemas.CommandRejected{CommandID: "a1", Kind: schemas.CommandApprove, Code: schemas.RejectInvalidArgs,
			Reason: "Validation failed for tool \"echo\":\n  - v: must have required properties v"},
		&schemas.CommandRejected{CommandID: "a2", Kind: schemas.CommandApprove, Code: schemas.RejectNotFound,
			Reason: "call c8 does not wait for approval"},
		&schemas.ApprovalResolved{Call: "c9", ToolCallID: "t1", Approved: true, By: "ann"},
		&schemas.CommandRejected{CommandID: "a4", Kind: schemas.CommandApprove, Code: schemas.RejectConsumed,
			Reason: "call c9 has been answered already"},
	)
	req := r.Tools.Take(t)
	if d := cmp.Diff(`{"v":"t1"}`, string(req.Arguments)); d != "" {
		t.Errorf("arguments (-want +got):\n%s", d)
	}
}

// TestEditedArgumentsSurviveACrashAtEveryEvent has another host continue after each event: whichever host dispatches
// the call, it runs with the approved arguments.
func TestEditedArgumentsSurviveACrashAtEveryEvent(t *testing.T) {
	t.Parallel()
	play := func(r *looptest.Rig) {
		r.Deliver("p1", looptest.Prompt("go"))
		r.Deliver("a1", edited(lastAsked(r), `{"v":"other"}`))
		for range r.Tools.Requests {
			req := r.Tools.Take(r.T)
			if string(req.Arguments) != `{"v":"other"}` {
				r.T.Errorf("the call is executed with %s", req.Arguments)
			}
			id, result := looptest.AnswerTo(req, "ok")
			r.Deliver(id, result)
		}
		r.WantEnd(schemas.EndNoToolCalls)
	}
	whole := looptest.New(t, looptest.ToolThenDone("t1"), askingStrictly)
	play(whole)
	for n := range whole.Events() {
		r := looptest.New(t, looptest.ToolThenDone("t1"), askingStrictly)
		appendTo(t, r, whole.Events()[:n])
		play(r)
		if got := r.Count(schemas.EventApprovalResolved); got != 1 {
			t.Errorf("after %d events: %d answers", n, got)
		}
	}
}
