package agents_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// A new session starts as a copy of another one up to an event, and continues independently.
func TestASessionIsBranched(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.Send(t, "s1", &schemas.SetSystemPrompt{SystemPrompt: "Be kind."})
	first := r.Prompted(t, "s1", "one", 1)
	r.Prompted(t, "s1", "two", 2)

	r.Send(t, "s2", &schemas.Branch{Session: "s1", Seq: uint64(len(first))})
	log := r.Prompted(t, "s2", "three", 1)
	branched := system.DataOf[*schemas.SessionBranched](log)
	if len(branched) != 1 || branched[0].Session != "s1" || branched[0].Seq != uint64(len(first)) ||
		len(branched[0].Messages) != 2 {
		t.Fatalf("branched %+v", branched)
	}
	got := r.asked.Requests("s2")
	if len(got) != 1 || len(got[0].Messages) != 3 || got[0].SystemPrompt != "Be kind." {
		t.Errorf("asked %+v", got)
	}
	r.EmptyInbox(t)
	r.Verify(t, "s2")

	for _, c := range []struct {
		session, of string
		seq         uint64
		code        schemas.RejectCode
		reason      string
	}{
		{"s2", "s1", 3, schemas.RejectState, "the session is a copy of session s1 already"},
		{"s1", "s2", 0, schemas.RejectState, "the session has begun already: branch into a new one"},
		{"s3", "s9", 0, schemas.RejectNotFound, "there is no session s9 to copy"},
		{"s4", "s4", 0, schemas.RejectNotFound, "there is no session s4 to copy"},
	} {
		err := r.Session(t, c.session).Branch(t.Context(), c.of, c.seq)
		var rejected *client.RejectedError
		if !errors.As(err, &rejected) || rejected.Code != c.code || rejected.Reason != c.reason {
			t.Errorf("branch %s into %s: %v", c.of, c.session, err)
		}
	}
}

// A model branches its own session: the copy ends before the reply that called the tool. The model cannot choose
// another session, and the number of copies per run is limited.
func TestAModelBranchesItsSession(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.Prompted(t, "s1", "one", 1)
	log := r.Prompted(t, "s1", `call session_branch {}`, 2)
	got := results(log)
	id, ok := strings.CutPrefix(strings.Join(got, "\n"), "Branched into session ")
	if !ok || !strings.HasPrefix(id, "s1-c") {
		t.Fatalf("results %q", got)
	}
	copied := r.Prompted(t, id, "two", 1)
	said := system.DataOf[*schemas.SessionBranched](copied)[0].Messages
	if len(said) != 3 || !strings.HasPrefix(said[2].(*schemas.UserMessage).Content.JoinText(), "call session_branch") {
		t.Errorf("copied %+v", said)
	}
	r.Verify(t, id)
}

// Copies beyond the limit of a run are refused. The limit counts again from zero in the next run.
func TestARunMakesFewCopies(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	prompt := strings.TrimSuffix(strings.Repeat("call session_branch {}\n", schemas.MaxBranchesOfRun+1), "\n")
	made := map[bool]int{}
	for _, text := range results(r.Prompted(t, "s1", prompt, 1)) {
		if _, ok := strings.CutPrefix(text, "Branched into session "); ok {
			made[true]++
		} else if text == "A run may make no more than 16 copies of its session" {
			made[false]++
		}
	}
	if d := cmp.Diff(map[bool]int{true: schemas.MaxBranchesOfRun, false: 1}, made); d != "" {
		t.Errorf("made (-want +got):\n%s", d)
	}
	got := results(r.Prompted(t, "s1", `call session_branch {}`, 2))
	if last := got[len(got)-1]; !strings.HasPrefix(last, "Branched into session ") {
		t.Errorf("in the next run: %q", last)
	}
}

func TestAModelInterruptsItsRun(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	log := r.Prompted(t, "s1", `call agent_interrupt {}`, 1)
	if d := cmp.Diff([]schemas.TerminationReason{schemas.EndAbort}, system.Reasons(log)); d != "" ||
		len(r.asked.Requests("s1")) != 1 {
		t.Errorf("ends (-want +got):\n%s\nafter %d model calls", d, len(r.asked.Requests("s1")))
	}
}
