package agents_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
)

// A session follows its profile from the next run on. Settings of the session take precedence over the profile.
func TestSessionsFollowProfiles(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.profile("reviewer", schemas.Profile{SystemPrompt: ptr("You review."), Tools: []string{"echo"}, ThinkingLevel: "low",
		Limits: &schemas.Limits{MaxTurns: 1}})
	r.follow("s1", "reviewer")
	log := r.Prompted(t, "s1", `call echo {"v":"x"}`, 1)
	if got := r.asked.Requests("s1"); len(got) != 1 || got[0].SystemPrompt != "You review." ||
		got[0].ThinkingLevel != "low" ||
		len(got[0].Tools) != 1 || got[0].Tools[0].Name != "echo" {
		t.Errorf("asked %+v", got)
	}
	if d := cmp.Diff([]schemas.TerminationReason{schemas.EndMaxTurns}, system.Reasons(log)); d != "" {
		t.Errorf("ends (-want +got):\n%s", d)
	}
	if c := system.DataOf[*schemas.AgentStart](log)[0].Config; c.Profile != "reviewer" {
		t.Errorf("the log has profile %q", c.Profile)
	}
	r.Send(t, "s1", &schemas.SetSystemPrompt{SystemPrompt: "My own."})
	r.Prompted(t, "s1", "hello", 2)
	if got := r.asked.Requests("s1"); got[len(got)-1].SystemPrompt != "My own." {
		t.Errorf("the session's own prompt: %q", got[len(got)-1].SystemPrompt)
	}
}

func TestUnknownProfilesAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.Send(t, "s1", &schemas.SetProfile{Profile: "nobody"}, client.WithID("sp"))
	log := r.Until(t, "s1", "the refusal", func(e schemas.Event) bool { return e.Type() == schemas.EventCommandRejected })
	d := system.DataOf[*schemas.CommandRejected](log)[0]
	if d.Code != schemas.RejectNoProfile || !strings.HasPrefix(d.Reason,
		"profile nobody: no such profile: the bucket agent_profiles has ") {
		t.Errorf("rejected with %+v", d)
	}
}

// A runner whose default profile does not exist ends runs, because it does not know their limits.
func TestAMissingProfileEndsTheRun(t *testing.T) {
	t.Parallel()
	r := start(t, func(h *host.Options) { h.Profile = "house" })
	log := r.Prompted(t, "s1", "hello", 1)
	if d := cmp.Diff([]schemas.TerminationReason{schemas.EndError}, system.Reasons(log)); d != "" ||
		len(r.asked.Requests("s1")) != 0 {
		t.Errorf("ends (-want +got):\n%s", d)
	}
}

// All sessions of a profile share its budget. Runs get a warning at a fraction of it, and no model is called once it is
// exhausted.
func TestProfilesHaveABudget(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.model.usage = schemas.Usage{Input: 30, Output: 10, TotalTokens: 40, Cost: schemas.Cost{Total: 0.1}}
	r.profile("team", schemas.Profile{Budget: &schemas.ProfileBudget{MaxTokens: 100, WarnShare: 0.5, Per: schemas.PerDay}})
	for _, c := range []struct {
		session string
		reason  schemas.TerminationReason
		warned  []*schemas.BudgetWarning
	}{
		{"s1", schemas.EndNoToolCalls, nil}, // 40
		{"s2", schemas.EndNoToolCalls, nil}, // 80
		{"s3", schemas.EndNoToolCalls, []*schemas.BudgetWarning{{Scope: schemas.BudgetProfile, Tokens: 80, MaxTokens: 100}}},
		// 120
		{"s4", schemas.EndBudget, nil},
	} {
		r.follow(c.session, "team")
		log := r.Prompted(t, c.session, "hello", 1)
		if d := cmp.Diff([]schemas.TerminationReason{c.reason}, system.Reasons(log)); d != "" {
			t.Errorf("%s ends (-want +got):\n%s", c.session, d)
		}
		if d := cmp.Diff(c.warned, system.DataOf[*schemas.BudgetWarning](log)); d != "" {
			t.Errorf("%s has the warnings (-want +got):\n%s", c.session, d)
		}
	}
	if n := len(r.asked.Requests("s4")); n != 0 {
		t.Errorf("the model was called %d times without a budget", n)
	}
}

// A retention rule for a profile deletes exactly the sessions whose runs followed this profile.
func TestSessionsAreKeptByTheirProfile(t *testing.T) {
	t.Parallel()
	url := system.StartServer(t, false).ClientURL()
	runner := system.RunOn(t, system.Connect(t, url, "r1"), wiring.Options{
		ID: "r1", Retention: map[string]retention.Rule{"scratch": {MaxBytes: 1}}, RetentionInterval: 100 * time.Millisecond,
		Index: index.Options{Check: 50 * time.Millisecond, Grace: time.Millisecond},
		Host: host.Options{
			Deps:     driver.Deps{Model: &rehearsal.Model{}},
			Defaults: schemas.RunConfig{Model: schemas.ModelRef{API: "rehearsal", Provider: "rehearsal", ID: "rehearsal"}},
		},
	})
	conn := system.Connect(t, url, "client")
	r := &rig{System: &system.System{Runner: runner, URL: url, Client: conn}, t: t, conn: conn}
	for _, profile := range []string{"scratch", "kept"} {
		r.profile(profile, schemas.Profile{})
	}
	r.Prompted(t, "none", "hello", 1)
	r.follow("s2", "kept")
	r.Prompted(t, "s2", "hello", 1)
	r.follow("s1", "scratch")
	r.Prompt(t, "s1", "hello")
	system.Eventually(t, "the session of the profile scratch is deleted", func() bool {
		stored := 0
		for _, err := range r.Store.Read(t.Context(), "s1", 1) {
			if err != nil && !errors.Is(err, eventstore.ErrDeleted) { // it may be deleted at the same time
				t.Fatal(err)
			}
			stored++
		}
		return stored == 0
	})
	for _, session := range []string{"none", "s2"} {
		if len(r.LogOf(t, session)) == 0 {
			t.Errorf("session %s is deleted too", session)
		}
	}
}
