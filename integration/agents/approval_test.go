package agents_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

func requested(e schemas.Event) bool { return e.Type() == schemas.EventApprovalRequested }

// waiting returns the call of the newest request for approval.
func waiting(log []schemas.Event) schemas.CallKey {
	asked := system.DataOf[*schemas.ApprovalRequested](log)
	return asked[len(asked)-1].Call
}

// answer returns the command that approves or denies a call.
func answer(approve bool, a schemas.ApprovalAnswer) schemas.CommandData {
	if approve {
		return &schemas.Approve{ApprovalAnswer: a}
	}
	return &schemas.Deny{ApprovalAnswer: a}
}

// A profile requires approval of calls. The session is at rest until the answer, the first answer counts, and the log
// has who answered and why.
func TestACallWaitsForApproval(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.profile("careful", schemas.Profile{Approval: &schemas.ApprovalPolicy{Tools: []string{"note"}}})
	for _, c := range []struct {
		session, by, reason, result string
		approved                    bool
	}{
		{"s1", "ann", "looks right", `noted {"v":"s1"}`, true},
		{"s2", "bob", "not on a Friday", "not on a Friday", false},
	} {
		r.follow(c.session, "careful")
		r.Prompt(t, c.session, `call note {"v":"`+c.session+`"}`)
		call := waiting(r.Until(t, c.session, "the request", requested))
		r.EmptyInbox(t) // at rest
		if strings.Contains(r.executed(), c.session) {
			t.Errorf("%s: executed without approval", c.session)
		}
		r.Send(t, c.session, answer(c.approved, schemas.ApprovalAnswer{Call: call, By: c.by, Reason: c.reason}))
		r.Send(t, c.session, answer(!c.approved, schemas.ApprovalAnswer{Call: call, By: "late"}))
		log := r.Until(t, c.session, "the end of the run", system.Ends(1))
		if d := cmp.Diff([]string{c.result}, results(log)); d != "" {
			t.Errorf("%s: results (-want +got):\n%s", c.session, d)
		}
		resolved := system.DataOf[*schemas.ApprovalResolved](log)
		if len(resolved) != 1 || resolved[0].Approved != c.approved || resolved[0].By != c.by ||
			resolved[0].Reason != c.reason {
			t.Errorf("%s: resolved %+v", c.session, resolved)
		}
	}
	if r.executed() != `{"v":"s1"}` {
		t.Errorf("executed %s", r.executed())
	}
}

// A service requests an approval, and the request expires.
func TestAServiceAsksForApproval(t *testing.T) {
	t.Parallel()
	ref := at(schemas.HookBeforeToolCall, "policy")
	r := start(t, func(h *host.Options) { h.Defaults.Hooks = []schemas.HookRef{ref} })
	r.service(ref, func(schemas.HookRequest) *schemas.HookAnswer {
		return &schemas.HookAnswer{Ask: true, TimeoutMs: 300, Reason: "it writes", By: "rule 7"}
	})
	log := r.Prompted(t, "s1", `call note {}`, 1)
	asked := system.DataOf[*schemas.ApprovalRequested](log)
	if len(asked) != 1 || asked[0].Reason != "it writes" || asked[0].By != "policy: rule 7" || asked[0].TimeoutMs != 300 {
		t.Errorf("asked %+v", asked)
	}
	if d := cmp.Diff([]string{"Nobody approved the call within 300ms"}, results(log)); d != "" || r.executed() != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

// A request for approval outlives its runner: the next runner handles the answer.
func TestAnApprovalSurvivesTheRunner(t *testing.T) {
	t.Parallel()
	r := start(t, func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} })
	r.Prompt(t, "s1", `call note {}`)
	call := waiting(r.Until(t, "s1", "the request", requested))
	r.EmptyInbox(t)
	r.Stop()
	r.Send(t, "s1", &schemas.Approve{ApprovalAnswer: schemas.ApprovalAnswer{Call: call}})
	other := start2(t, r)
	log := other.Until(t, "s1", "the end of the run", system.Ends(1))
	if d := cmp.Diff([]string{`noted {}`}, results(log)); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	other.Verify(t, "s1")
}

// start2 starts another runner on the rig's server.
func start2(t *testing.T, r *rig) *system.System {
	t.Helper()
	runner := system.StartRunner(t, r.URL, system.RunnerOptions{Model: r.model, Inbox: busInbox("second")})
	return &system.System{Runner: runner, URL: r.URL, Client: r.Client}
}
