package driver_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// answered returns an answer to this request and no other.
func answered(asked *schemas.ApprovalRequested, by string) schemas.ApprovalAnswer {
	a := asked.Answer("")
	a.By = by
	return a
}

// requestsOf returns the approval requests in the session's log.
func requestsOf(r *looptest.Rig) (requests []*schemas.ApprovalRequested) {
	for _, e := range r.Events() {
		if d, ok := e.Data.(*schemas.ApprovalRequested); ok {
			requests = append(requests, d)
		}
	}
	return requests
}

// refusedOf returns the commands that the session has rejected, as "id code".
func refusedOf(r *looptest.Rig) (list []string) {
	for _, e := range r.Events() {
		if d, ok := e.Data.(*schemas.CommandRejected); ok {
			if !strings.Contains(d.Reason, "call c9 ") || !strings.Contains(d.Reason, "look at the call again") {
				r.T.Errorf("%s is refused without saying what to do: %s", d.CommandID, d.Reason)
			}
			list = append(list, d.CommandID+" "+string(d.Code))
		}
	}
	return list
}

// TestLateApprovalDoesNotAnswerARecreatedSession answers a call of a session that was deleted in the meantime and
// created again, and now waits with a call of the same key, name and arguments. The answer approves, denies and
// validates nothing, and the call still waits for its own answer.
func TestLateApprovalDoesNotAnswerARecreatedSession(t *testing.T) {
	t.Parallel()
	before := looptest.New(t, looptest.ToolThenDone("t1"), askingStrictly)
	before.Deliver("p1", looptest.Prompt("go"))
	r := looptest.New(t, looptest.ToolThenDone("t1"), askingStrictly)
	r.Deliver("p1", looptest.Prompt("go"))
	old, now := requestsOf(before)[0], requestsOf(r)[0]
	if old.Call != now.Call || string(old.Args) != string(now.Args) || old.Digest == now.Digest {
		t.Fatalf("the requests are %+v and %+v", old, now)
	}
	r.Deliver("a1", &schemas.Approve{ApprovalAnswer: answered(old, "ann")})
	r.Deliver("d1", &schemas.Deny{ApprovalAnswer: answered(old, "ann")})
	r.Deliver("a2", &schemas.Approve{ApprovalAnswer: answered(old, "ann"), Args: []byte(`{"w":1}`)})
	if len(r.Tools.Requests) != 0 || r.Count(schemas.EventApprovalResolved) != 0 {
		t.Fatalf("the call was answered: %v", r.Types())
	}
	if d := cmp.Diff([]string{"a1 stale", "d1 stale", "a2 stale"}, refusedOf(r)); d != "" {
		t.Errorf("refusals (-want +got):\n%s", d)
	}
	r.Deliver("a3", &schemas.Approve{ApprovalAnswer: answered(now, "bob")})
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
	r.Deliver(id, result)
	r.WantEnd(schemas.EndNoToolCalls)
}

// TestApprovalDigestIsOfTheLoggedArguments computes the digest from the events, as any reader of the log can.
func TestApprovalDigestIsOfTheLoggedArguments(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"), asking)
	r.Deliver("p1", looptest.Prompt("go"))
	nonce := ""
	for _, e := range r.Events() {
		switch d := e.Data.(type) {
		case *schemas.ToolExecutionStart:
			nonce = d.Nonce
		case *schemas.ApprovalRequested:
			if want, err := d.DigestIn("s1", nonce); err != nil || nonce == "" || d.Digest != want {
				t.Errorf("the digest is %q, want %q (%v) with the nonce %q", d.Digest, want, err, nonce)
			}
		}
	}
	if len(requestsOf(r)) != 1 {
		t.Errorf("%d requests", len(requestsOf(r)))
	}
}

// TestApprovedCallRunsWithTheRequestedArguments continues a session whose approval request has other arguments than
// this process would make of the model's, as another version may have made them: the tool gets the approved ones.
// Without a digest, as in an old log, it gets the same as at the time of that log.
func TestApprovedCallRunsWithTheRequestedArguments(t *testing.T) {
	t.Parallel()
	whole := looptest.New(t, looptest.ToolThenDone("t1"), asking)
	whole.Deliver("p1", looptest.Prompt("go"))
	for digest, want := range map[string]string{"sha256:" + strings.Repeat("0", 64): `{"v":"shown"}`, "": `{"v":"t1"}`} {
		events := whole.Events()
		for i, e := range events {
			if d, ok := e.Data.(*schemas.ApprovalRequested); ok {
				shown := *d
				shown.Args, shown.Digest = []byte(`{"v":"shown"}`), digest
				events[i].Data = &shown
			}
		}
		r := looptest.New(t, looptest.ToolThenDone("t1"), asking)
		appendTo(t, r, events)
		r.Deliver("a1", &schemas.Approve{ApprovalAnswer: answered(requestsOf(r)[0], "ann")})
		if got := string(r.Tools.Take(t).Arguments); got != want {
			t.Errorf("with the digest %q the tool gets %s, want %s", digest, got, want)
		}
	}
}
