package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// asking has calls of echo need an approval, for at most a minute.
func asking(o *driver.HostOptions) {
	o.Defaults.Approval = schemas.ApprovalPolicy{Tools: []string{"echo"}, TimeoutMs: 60_000}
}

// approvals are the events of approvals, as data.
func (r *rig) approvals() (all []schemas.EventData) {
	for _, e := range r.events() {
		switch e.Data.(type) {
		case *schemas.ApprovalRequested, *schemas.ApprovalResolved, *schemas.CommandRejected:
			all = append(all, e.Data)
		}
	}
	return all
}

func (r *rig) wantApprovals(want ...schemas.EventData) {
	r.t.Helper()
	if d := cmp.Diff(want, r.approvals()); d != "" {
		r.t.Errorf("approvals (-want +got):\n%s", d)
	}
}

// results are the texts of the tool results in the log.
func (r *rig) results() (texts []string) {
	for _, e := range r.events() {
		if end, ok := e.Data.(*schemas.ToolExecutionEnd); ok {
			texts = append(texts, end.Result.Content.JoinText())
		}
	}
	return texts
}

func requested(call schemas.CallKey, id string) *schemas.ApprovalRequested {
	return &schemas.ApprovalRequested{Call: call, ToolCallID: id, ToolName: "echo", Args: []byte(`{"v":"` + id + `"}`), By: "policy", TimeoutMs: 60_000}
}

func decision(call schemas.CallKey, by, reason string) schemas.ApprovalAnswer {
	return schemas.ApprovalAnswer{Call: call, By: by, Reason: reason}
}

// TestACallWaitsForItsApproval goes through restarts: every step is taken by another host.
func TestACallWaitsForItsApproval(t *testing.T) {
	r := newRig(t, nil)
	next := func(id string, data schemas.CommandData) {
		t.Helper()
		r.host = r.newHost(toolThenDone("t1"), asking)
		r.deliver(id, data)
	}
	next("p1", prompt("go")) // returns: the session rests
	next("p1", prompt("go"))
	if len(r.tools.requests) != 0 {
		t.Fatal("the call was handed over without approval")
	}
	next("a1", &schemas.Approve{ApprovalAnswer: decision("", "ann", "looks harmless")})
	next("a2", &schemas.Deny{ApprovalAnswer: decision("c9", "bob", "too late")})
	id, result := answerTo(r.tools.take(t), "ok")
	next(id, result)
	r.wantEnd(schemas.EndNoToolCalls)
	r.wantApprovals(requested("c9", "t1"),
		&schemas.ApprovalResolved{Call: "c9", ToolCallID: "t1", Approved: true, By: "ann", Reason: "looks harmless"},
		&schemas.CommandRejected{CommandID: "a2", Kind: schemas.CommandDeny, Code: schemas.RejectConsumed, Reason: "call c9 has been answered already"},
	)
}

// TestAnApprovalGoesOnAfterEveryEvent takes the session up by another host after each event of a run with an approval,
// and delivers everything once more.
func TestAnApprovalGoesOnAfterEveryEvent(t *testing.T) {
	play := func(r *rig) {
		r.deliver("p1", prompt("go"))
		r.deliver("a1", &schemas.Approve{ApprovalAnswer: decision("", "ann", "")})
		for range r.tools.requests { // once more where it may have been handed over before
			id, result := answerTo(r.tools.take(t), "ok")
			r.deliver(id, result)
		}
		r.wantEnd(schemas.EndNoToolCalls)
	}
	whole := newRig(t, toolThenDone("t1"), asking)
	play(whole)
	for n := range whole.events() {
		r := newRig(t, toolThenDone("t1"), asking)
		for _, e := range whole.events()[:n] {
			appendTo(t, r, e)
		}
		play(r)
		for kind, want := range map[schemas.EventType]int{
			schemas.EventApprovalRequested: 1, schemas.EventApprovalResolved: 1, schemas.EventToolExecutionEnd: 1, schemas.EventAgentEnd: 1,
		} {
			if got := r.count(kind); got != want {
				t.Errorf("after %d events: %d %s, want %d", n, got, kind, want)
			}
		}
	}
}

func appendTo(t *testing.T, r *rig, e schemas.Event) {
	t.Helper()
	log, err := r.store.Open(t.Context(), e.Session)
	if err == nil {
		err = log.Append(t.Context(), e)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestADeniedCallIsAnsweredWithTheReason(t *testing.T) {
	r := newRig(t, toolThenDone("t1"), asking)
	r.deliver("p1", prompt("go"))
	r.deliver("d1", &schemas.Deny{ApprovalAnswer: decision("c9", "bob", "not on a Friday")})
	r.wantEnd(schemas.EndNoToolCalls)
	if d := cmp.Diff([]string{"not on a Friday"}, r.results()); d != "" || len(r.tools.requests) != 0 {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

func TestTimeDenies(t *testing.T) {
	timers := timetable{}
	r := newRig(t, toolThenDone("t1"), asking, func(o *driver.HostOptions) { o.Timers = timers })
	r.deliver("p1", prompt("go"))
	if at := timers["approval_c9 r2"]; time.Until(at) < 50*time.Second {
		t.Fatalf("the timer is set for %s: %v", at, timers)
	}
	r.deliver("due", &schemas.Timer{Name: "approval_c9", Call: "c9", RunID: "r2"})
	r.deliver("due again", &schemas.Timer{Name: "approval_c9", Call: "c9", RunID: "r2"})
	r.wantEnd(schemas.EndNoToolCalls)
	r.wantApprovals(requested("c9", "t1"), &schemas.ApprovalResolved{
		Call: "c9", ToolCallID: "t1", By: "time", Reason: "Nobody approved the call within 1m0s"})
}

// TestOneWaitingCallHoldsUpNoOther has the hook ask about one call of two.
func TestOneWaitingCallHoldsUpNoOther(t *testing.T) {
	r := newRig(t, toolThenDone("t1", "t2"), func(o *driver.HostOptions) {
		o.Hooks.BeforeToolCall = func(_ context.Context, c driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			return driver.BeforeToolCallResult{Ask: c.ToolCall.ID == "t1", Reason: "the first is odd", By: "guard"}, nil
		}
	})
	r.deliver("p1", prompt("go"))
	second := r.tools.take(t)
	if second.ToolCallID != "t2" {
		t.Fatalf("handed over %s", second.ToolCallID)
	}
	id, result := answerTo(second, "two")
	r.deliver(id, result)
	r.deliver("a1", &schemas.Approve{})
	id, result = answerTo(r.tools.take(t), "one")
	r.deliver(id, result)
	r.wantEnd(schemas.EndNoToolCalls)
	want := requested("c9", "t1")
	want.Reason, want.By, want.TimeoutMs = "the first is odd", "guard", 0
	r.wantApprovals(want, &schemas.ApprovalResolved{Call: "c9", ToolCallID: "t1", Approved: true})
}

func TestAnAbortWaitsForNoApproval(t *testing.T) {
	r := newRig(t, toolThenDone("t1"), asking, func(o *driver.HostOptions) { o.AbortGrace = time.Hour })
	r.deliver("p1", prompt("go"))
	r.deliver("x1", &schemas.Abort{})
	r.wantEnd(schemas.EndAbort)
	if d := cmp.Diff([]string{"Operation aborted"}, r.results()); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	r.deliver("a1", &schemas.Approve{})
	r.wantApprovals(requested("c9", "t1"), &schemas.CommandRejected{
		CommandID: "a1", Kind: schemas.CommandApprove, Code: schemas.RejectNotFound, Reason: "no call waits for approval"})
}

func TestAnAnswerHasToNameItsCall(t *testing.T) {
	r := newRig(t, toolThenDone("t1", "t2"), asking)
	r.deliver("p1", prompt("go"))
	r.deliver("a1", &schemas.Approve{})
	r.deliver("a2", &schemas.Approve{ApprovalAnswer: decision("c99", "", "")})
	r.wantApprovals(requested("c9", "t1"), requested("c12", "t2"),
		&schemas.CommandRejected{CommandID: "a1", Kind: schemas.CommandApprove, Code: schemas.RejectState, Reason: "2 calls wait for approval: name one"},
		&schemas.CommandRejected{CommandID: "a2", Kind: schemas.CommandApprove, Code: schemas.RejectNotFound, Reason: "call c99 does not wait for approval"},
	)
}
