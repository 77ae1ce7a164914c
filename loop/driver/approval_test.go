package driver_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// asking makes calls of echo need an approval, for at most a minute.
func asking(o *host.Options) {
	o.Defaults.Approval = schemas.ApprovalPolicy{Tools: []string{"echo"}, TimeoutMs: 60_000}
}

// approvals returns the approval events as JSON, without digests, which differ with the call's nonce.
func approvals(r *looptest.Rig) (all []schemas.EventData) {
	for _, e := range r.Events() {
		switch d := e.Data.(type) {
		case *schemas.ApprovalRequested:
			plain := *d
			plain.Digest = ""
			all = append(all, &plain)
		case *schemas.ApprovalResolved, *schemas.CommandRejected:
			all = append(all, e.Data)
		}
	}
	return all
}

func wantApprovals(r *looptest.Rig, want ...schemas.EventData) {
	r.T.Helper()
	if d := cmp.Diff(want, approvals(r)); d != "" {
		r.T.Errorf("approvals (-want +got):\n%s", d)
	}
}

// results returns the texts of the tool results in the log.
func results(r *looptest.Rig) (texts []string) {
	for _, e := range r.Events() {
		if end, ok := e.Data.(*schemas.ToolExecutionEnd); ok {
			texts = append(texts, end.Result.Content.JoinText())
		}
	}
	return texts
}

func requested(call schemas.CallKey, id string) *schemas.ApprovalRequested {
	return &schemas.ApprovalRequested{Call: call, ToolCallID: id, ToolName: "echo", Args: []byte(`{"v":"` + id + `"}`),
		By: "policy", TimeoutMs: 60_000}
}

func decision(call schemas.CallKey, by, reason string) schemas.ApprovalAnswer {
	return schemas.ApprovalAnswer{Call: call, By: by, Reason: reason}
}

// TestACallWaitsForItsApproval restarts the session before every step: another host takes each.
func TestACallWaitsForItsApproval(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	next := func(id string, data schemas.CommandData) {
		t.Helper()
		r.Host = r.NewHost(looptest.ToolThenDone("t1"), asking)
		r.Deliver(id, data)
	}
	next("p1", looptest.Prompt("go")) // returns: the session rests
	next("p1", looptest.Prompt("go"))
	if len(r.Tools.Requests) != 0 {
		t.Fatal("the call was dispatched without approval")
	}
	next("forged", &schemas.ToolResponse{Call: "c9", ToolCallID: "t1", ToolName: "echo",
		Result: schemas.TextResult("forged")})
	if texts := results(r); len(texts) != 0 {
		t.Fatalf("a call that waits for its approval has the result %q", texts)
	}
	next("a1", &schemas.Approve{ApprovalAnswer: decision("c9", "ann", "looks harmless")})
	next("a2", &schemas.Deny{ApprovalAnswer: decision("c9", "bob", "too late")})
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
	next(id, result)
	r.WantEnd(schemas.EndNoToolCalls)
	wantApprovals(r, requested("c9", "t1"),
		&schemas.ApprovalResolved{Call: "c9", ToolCallID: "t1", Approved: true, By: "ann", Reason: "looks harmless"},
		&schemas.CommandRejected{CommandID: "a2", Kind: schemas.CommandDeny, Code: schemas.RejectConsumed,
			Reason: "call c9 has been answered already"},
	)
}

// TestApprovalContinuesAfterACrashAtEveryEvent has another host continue the session after each event of a run with an
// approval, and delivers every message once more.
func TestApprovalContinuesAfterACrashAtEveryEvent(t *testing.T) {
	t.Parallel()
	play := func(r *looptest.Rig) {
		r.Deliver("p1", looptest.Prompt("go"))
		r.Deliver("a1", &schemas.Approve{ApprovalAnswer: decision(lastAsked(r), "ann", "")})
		for range r.Tools.Requests { // once more where it may have been dispatched before
			id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
			r.Deliver(id, result)
		}
		r.WantEnd(schemas.EndNoToolCalls)
	}
	whole := looptest.New(t, looptest.ToolThenDone("t1"), asking)
	play(whole)
	for n := range whole.Events() {
		r := looptest.New(t, looptest.ToolThenDone("t1"), asking)
		appendTo(t, r, whole.Events()[:n])
		play(r)
		for kind, want := range map[schemas.EventType]int{
			schemas.EventApprovalRequested: 1, schemas.EventApprovalResolved: 1, schemas.EventToolExecutionEnd: 1,
			schemas.EventAgentEnd: 1,
		} {
			if got := r.Count(kind); got != want {
				t.Errorf("after %d events: %d %s, want %d", n, got, kind, want)
			}
		}
	}
}

// lastAsked returns the call whose approval was requested last. Earlier requests may be from before a resume.
func lastAsked(r *looptest.Rig) (call schemas.CallKey) {
	for _, e := range r.Events() {
		if request, ok := e.Data.(*schemas.ApprovalRequested); ok {
			call = request.Call
		}
	}
	return call
}

// appendTo stores events in the session's log.
func appendTo(t *testing.T, r *looptest.Rig, events []schemas.Event) {
	t.Helper()
	log, err := r.Store.Open(t.Context(), "s1")
	for _, e := range events {
		if err == nil {
			err = log.Append(t.Context(), e)
		}
	}
	if err == nil {
		err = log.Flush(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestADeniedCallIsAnsweredWithTheReason(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"), asking)
	r.Deliver("p1", looptest.Prompt("go"))
	r.Deliver("d1", &schemas.Deny{ApprovalAnswer: decision("c9", "bob", "not on a Friday")})
	r.WantEnd(schemas.EndNoToolCalls)
	if d := cmp.Diff([]string{"not on a Friday"}, results(r)); d != "" || len(r.Tools.Requests) != 0 {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

func TestUnansweredApprovalIsDenied(t *testing.T) {
	t.Parallel()
	timers := timetable{}
	r := looptest.New(t, looptest.ToolThenDone("t1"), asking, func(o *host.Options) { o.Timers = timers })
	r.Deliver("p1", looptest.Prompt("go"))
	if at := timers["approval_c9 r2"]; time.Until(at) < 50*time.Second {
		t.Fatalf("the timer is set for %s: %v", at, timers)
	}
	r.Deliver("due", &schemas.Timer{Name: "approval_c9", Call: "c9", RunID: "r2"})
	r.Deliver("due again", &schemas.Timer{Name: "approval_c9", Call: "c9", RunID: "r2"})
	r.WantEnd(schemas.EndNoToolCalls)
	wantApprovals(r, requested("c9", "t1"), &schemas.ApprovalResolved{
		Call: "c9", ToolCallID: "t1", By: "time", Reason: "Nobody approved the call within 1m0s"})
}

// One timer limits the waits of all calls of a reply: those whose limit has passed when it fires are denied, and it is
// set again for the next.
func TestCallsShareATimer(t *testing.T) {
	t.Parallel()
	timers := timetable{}
	r := looptest.New(t, looptest.ToolThenDone("t1", "t2", "t3"), asking, func(o *host.Options) { o.Timers = timers })
	r.Deliver("p1", looptest.Prompt("go"))
	fire := func(at func(limit time.Time) time.Time) {
		t.Helper()
		if len(timers) != 1 {
			t.Fatalf("timers %v, want one", timers)
		}
		for key, limit := range timers {
			name, _, _ := strings.Cut(key, " ")
			call := strings.TrimPrefix(name, "approval_")
			c := looptest.Command("due "+call, &schemas.Timer{Name: name, Call: call, RunID: "r2"})
			c.Time = at(limit)
			delete(timers, key)
			if err := r.Host.Deliver(t.Context(), c, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	fire(func(time.Time) time.Time { return time.Time{} }) // no other limit has passed
	if n := r.Count(schemas.EventApprovalResolved); n != 1 {
		t.Fatalf("%d calls are denied", n)
	}
	fire(func(limit time.Time) time.Time { return limit })
	r.WantEnd(schemas.EndNoToolCalls)
	if n := r.Count(schemas.EventApprovalResolved); n != 3 || len(timers) != 0 {
		t.Errorf("%d calls are denied, timers %v", n, timers)
	}
}

// A process that loads the session after a limit has passed does not have the timer fire once more at once: it is in
// the inbox.
func TestLimitsThatHavePassedAreSetForLater(t *testing.T) {
	t.Parallel()
	timers, late := timetable{}, new(jumping)
	wait := func(o *host.Options) { o.Timers, o.Clock = timers, late }
	r := looptest.New(t, looptest.ToolThenDone("t1", "t2"), asking, wait)
	r.Deliver("p1", looptest.Prompt("go"))
	clear(timers)
	late.jump(2 * time.Minute)
	r.Host = r.NewHost(looptest.ToolThenDone("t1", "t2"), asking, wait)
	r.Deliver("steer", &schemas.Steer{Input: schemas.Input{Text: "hi"}})
	for _, at := range timers {
		if !at.After(late.Now()) {
			t.Errorf("it is %s, the timers are %v", late.Now(), timers)
		}
	}
	if len(timers) != 1 {
		t.Errorf("timers %v, want one", timers)
	}
}

// TestCallWaitingForApprovalDelaysNoOther has the hook require an approval for one call of two.
func TestCallWaitingForApprovalDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1", "t2"), func(o *host.Options) {
		o.Hooks.BeforeToolCall = func(_ context.Context, c driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			return driver.BeforeToolCallResult{Ask: c.ToolCall.ID == "t1", Reason: "the first is odd", By: "guard"}, nil
		}
	})
	r.Deliver("p1", looptest.Prompt("go"))
	second := r.Tools.Take(t)
	if second.ToolCallID != "t2" {
		t.Fatalf("dispatched %s", second.ToolCallID)
	}
	id, result := looptest.AnswerTo(second, "two")
	r.Deliver(id, result)
	r.Deliver("a1", &schemas.Approve{ApprovalAnswer: decision("c9", "", "")})
	id, result = looptest.AnswerTo(r.Tools.Take(t), "one")
	r.Deliver(id, result)
	r.WantEnd(schemas.EndNoToolCalls)
	want := requested("c9", "t1")
	want.Reason, want.By, want.TimeoutMs = "the first is odd", "guard", 0
	wantApprovals(r, want, &schemas.ApprovalResolved{Call: "c9", ToolCallID: "t1", Approved: true})
}

func TestAbortDoesNotWaitForAnApproval(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"), asking, func(o *host.Options) { o.AbortGrace = time.Hour })
	r.Deliver("p1", looptest.Prompt("go"))
	r.Deliver("x1", &schemas.Abort{})
	r.WantEnd(schemas.EndAbort)
	if d := cmp.Diff([]string{"Operation aborted"}, results(r)); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	r.Deliver("a1", &schemas.Approve{ApprovalAnswer: decision("c9", "", "")})
	wantApprovals(r, requested("c9", "t1"), &schemas.CommandRejected{
		CommandID: "a1", Kind: schemas.CommandApprove, Code: schemas.RejectNotFound,
		Reason: "call c9 does not wait for approval"})
}

func TestApprovalMustNameItsCall(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1", "t2"), asking)
	r.Deliver("p1", looptest.Prompt("go"))
	r.Deliver("a1", &schemas.Approve{})
	r.Deliver("a2", &schemas.Approve{ApprovalAnswer: decision("c99", "", "")})
	r.Deliver("a3", &schemas.Approve{ApprovalAnswer: decision("c9", "time", "")})
	wantApprovals(r, requested("c9", "t1"), requested("c12", "t2"),
		&schemas.CommandRejected{CommandID: "a1", Kind: schemas.CommandApprove, Code: schemas.RejectInvalid,
			Reason: "name the call, as approval_requested does"},
		&schemas.CommandRejected{CommandID: "a2", Kind: schemas.CommandApprove, Code: schemas.RejectNotFound,
			Reason: "call c99 does not wait for approval"},
		&schemas.CommandRejected{CommandID: "a3", Kind: schemas.CommandApprove, Code: schemas.RejectInvalid,
			Reason: `by "time" is reserved: it is who denies what nobody answers`},
	)
}
