package agents_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
)

// wantRejected checks that a command was rejected.
func wantRejected(t *testing.T, err error, code schemas.RejectCode, reason string) {
	t.Helper()
	var rejected *client.RejectedError
	if !errors.As(err, &rejected) || rejected.Code != code || rejected.Reason != reason {
		t.Errorf("got %v, want %s: %s", err, code, reason)
	}
}

// watched starts a narrow system that compacts only on request, with services at these hooks. It has completed three
// prompts.
func watched(t *testing.T, refs ...schemas.HookRef) (*rig, *narrow, *client.Session) {
	t.Helper()
	r, model, s := narrowRig(t, 100_000, on(1000, 100), func(h *host.Options) { h.Defaults.Hooks = refs })
	for n, text := range []string{"one ", "needle two ", "three "} {
		r.Prompted(t, "s1", text+strings.Repeat("word ", 150), n+1)
	}
	return r, model, s
}

// A service refuses a compaction, or provides the summary. A service whose answer is lost changes nothing.
func TestServicesDecideAboutCompactions(t *testing.T) {
	t.Parallel()
	gone, ref := at(schemas.HookSessionBeforeCompact, "gone"), at(schemas.HookSessionBeforeCompact, "keeper")
	r, model, s := watched(t, gone, ref)
	kept := ""
	r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
		if req.Compaction == nil || req.Compaction.Reason != schemas.CompactManual || len(req.Messages) == 0 ||
			req.CommandID == "" || req.Compaction.TokensBefore == 0 {
			t.Errorf("asked %+v", req)
		}
		switch req.Compaction.CustomInstructions {
		case "never":
			return &schemas.HookAnswer{Cancel: true, Reason: "under audit", By: "ann"}
		case "ours":
			return &schemas.HookAnswer{Compaction: &schemas.SuppliedCompaction{Summary: "What we say.", FirstKeptEntryID: kept,
				Details: []byte(`{"pages":3}`)}}
		}
		return &schemas.HookAnswer{}
	})
	nobody := []schemas.HookFailure{{Service: "gone",
		Error: "hook agent.hook.session_before_compact.gone: no service listens"}}

	wantRejected(t, s.Compact(t.Context(), "never"), schemas.RejectAborted, "Compaction cancelled")
	log := r.log("s1")
	checkDecision(t, log, &schemas.HookDecision{Hook: schemas.HookSessionBeforeCompact, Block: true, Reason: "under audit",
		By: "keeper: ann", Failures: nobody})
	if done := ends(log); len(done) != 1 || !done[0].Aborted || len(model.summaries) > 0 {
		t.Errorf("ended %+v with %d requests for summaries", done, len(model.summaries))
	}

	kept = newest(log, schemas.RoleUser)
	do(t, s.Compact(t.Context(), "ours"))
	log = r.log("s1")[len(log):]
	checkDecision(t, log, &schemas.HookDecision{Hook: schemas.HookSessionBeforeCompact, By: "keeper", Failures: nobody,
		Compaction: &schemas.SuppliedCompaction{Summary: "What we say.", FirstKeptEntryID: kept,
			Details: []byte(`{"pages":3}`)}})
	if done := ends(log); len(done) != 1 || done[0].Summary != "What we say." || !done[0].FromHook ||
		done[0].FirstKeptEntryID != kept || len(model.summaries) > 0 {
		t.Errorf("ended %+v with %d requests for summaries", done, len(model.summaries))
	}
	r.Prompted(t, "s1", "and now?", 4)
	shown := said(model.asked[len(model.asked)-1].Messages)
	if len(shown) != 4 || !strings.Contains(shown[0], "What we say.") || !strings.HasPrefix(shown[1], "three") {
		t.Errorf("the model is shown %q", shown)
	}

	r.Prompted(t, "s1", strings.Repeat("word ", 300), 5)
	do(t, s.Compact(t.Context(), "as usual"))
	if len(model.summaries) == 0 {
		t.Error("nobody was asked for a summary")
	}
	r.EmptyInbox(t)
	r.Verify(t, "s1")
}

// A service refuses a navigation, writes the summary of the abandoned branch, or sets the instructions and the label of
// the summary that a model writes.
func TestServicesDecideAboutNavigations(t *testing.T) {
	t.Parallel()
	ref := at(schemas.HookSessionBeforeTree, "keeper")
	answers := map[string]*schemas.HookAnswer{
		"never":   {Cancel: true, Reason: "not back there"},
		"ours":    {Summary: "What we say.", Label: ptr("by us")},
		"more":    {CustomInstructions: ptr("Mind the tests.")},
		"instead": {CustomInstructions: ptr("Say one word."), ReplaceInstructions: ptr(true)},
	}
	for _, c := range []struct{ asked, summary, prompt, label string }{
		{asked: "ours", summary: "What we say.", label: "by us"},
		{asked: "more", prompt: "Additional focus: Mind the tests.", label: "mine"},
		{asked: "instead", prompt: "Say one word.", label: "mine"},
		{asked: "nothing", prompt: "Additional focus: nothing", label: "mine"},
	} {
		t.Run(c.asked, func(t *testing.T) {
			t.Parallel()
			r, model, s := watched(t, ref)
			r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
				if req.Navigation == nil || req.Navigation.TargetID == "" || len(req.Messages) != 4 || req.CommandID == "" {
					t.Errorf("asked %+v", req)
				}
				if a := answers[req.Navigation.CustomInstructions]; a != nil {
					return a
				}
				return &schemas.HookAnswer{}
			})
			first := firstReply(r.log("s1"))
			_, err := s.Navigate(t.Context(), first, client.NavigateOptions{Instructions: "never", Summarize: true})
			wantRejected(t, err, schemas.RejectAborted, "not back there")
			before := r.log("s1")
			checkDecision(t, before, &schemas.HookDecision{Hook: schemas.HookSessionBeforeTree, Block: true, By: "keeper",
				Reason: "not back there"})
			if n := len(system.DataOf[*schemas.Leaf](before)); n > 0 {
				t.Errorf("the leaf was moved %d times", n)
			}
			_, err = s.Navigate(t.Context(), first,
				client.NavigateOptions{Instructions: c.asked, Summarize: true, Label: "mine"})
			do(t, err)
			log := r.log("s1")[len(before):]
			moved := system.DataOf[*schemas.Leaf](log)
			if len(moved) != 1 || moved[0].Summary == nil || c.summary != "" && moved[0].Summary.Summary != c.summary ||
				moved[0].Summary.FromHook != (c.summary != "") || len(model.summaries) > 0 != (c.prompt != "") {
				t.Fatalf("moved %+v with %d requests for summaries", moved, len(model.summaries))
			}
			if c.prompt != "" {
				asked := said(model.summaries[0].Messages)[0]
				if !strings.Contains(asked, c.prompt) || strings.Contains(asked, "## Goal") == (c.asked == "instead") {
					t.Errorf("the model was asked %q", asked)
				}
			}
			labels := system.DataOf[*schemas.Label](log)
			if len(labels) != 1 || labels[0].Label != c.label {
				t.Errorf("labels %+v", labels)
			}
			checkDecision(t, log, decided(schemas.HookSessionBeforeTree, answers[c.asked]))
			r.EmptyInbox(t)
			r.Verify(t, "s1")
		})
	}
}

// decided returns the decision that results from an answer of the keeper.
func decided(hook schemas.HookName, a *schemas.HookAnswer) *schemas.HookDecision {
	d := &schemas.HookDecision{Hook: hook, By: "keeper"}
	if a != nil {
		d.Summary, d.Label, d.CustomInstructions, d.ReplaceInstructions = a.Summary, a.Label, a.CustomInstructions,
			a.ReplaceInstructions
	}
	return d
}

func firstReply(log []schemas.Event) string {
	for _, end := range system.DataOf[*schemas.MessageEnd](log) {
		if end.Message.MessageRole() == schemas.RoleAssistant {
			return end.MessageID
		}
	}
	return ""
}

// A service refuses copies of a session from an entry. The log of an allowed copy has the services that allowed it. A
// service that does not answer does not refuse, and copies of whole sessions need no decision.
func TestServicesDecideAboutForks(t *testing.T) {
	t.Parallel()
	gone, ref := at(schemas.HookSessionBeforeFork, "gone"), at(schemas.HookSessionBeforeFork, "keeper")
	r, _, _ := watched(t, gone, ref)
	secret := newest(r.log("s1"), schemas.RoleUser)
	asked := 0
	r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
		asked++
		if req.Fork == nil || req.Fork.Session != "s1" || req.CommandID == "" || req.Session == "s1" {
			t.Errorf("asked %+v", req)
		}
		switch {
		case req.Fork.EntryID == secret && req.Session == "reasoned":
			return &schemas.HookAnswer{Cancel: true, Reason: "not from there"}
		case req.Fork.EntryID == secret:
			return &schemas.HookAnswer{Cancel: true, By: "ann"}
		}
		return &schemas.HookAnswer{}
	})
	c, err := client.New(r.conn.NATS(), client.Options{})
	do(t, err)
	nobody := []schemas.HookFailure{{Service: "gone",
		Error: "hook agent.hook.session_before_fork.gone: no service listens"}}
	fork := func(session, entry string, position schemas.BranchPosition) error {
		_, err := c.Session(session).Fork(t.Context(), "s1", entry, position)
		return err
	}

	for _, position := range []schemas.BranchPosition{schemas.BranchAt, schemas.BranchBefore} {
		wantRejected(t, fork("refused-"+string(position), secret, position), schemas.RejectAborted,
			"The fork was cancelled by keeper: ann")
	}
	wantRejected(t, fork("reasoned", secret, ""), schemas.RejectAborted, "not from there")
	log := r.log("refused-at")
	checkDecision(t, log, &schemas.HookDecision{Hook: schemas.HookSessionBeforeFork, Block: true, By: "keeper: ann",
		Failures: nobody})
	if d := cmp.Diff([]schemas.EventType{schemas.EventHookDecision, schemas.EventCommandRejected},
		system.TypesOf(log)); d != "" {
		t.Errorf("log of the refused copy (-want +got):\n%s", d)
	}
	do(t, fork("refused-at", firstReply(r.log("s1")), "")) // the refused session was not created
	if n := asked; n != 4 {
		t.Errorf("asked %d times", n)
	}
	log = r.Prompted(t, "refused-at", "go on", 1)
	if d := decisions(log, schemas.HookSessionBeforeFork); len(d) != 2 || d[1].Block || d[1].By != "keeper" ||
		!cmp.Equal(d[1].Failures, nobody) {
		t.Errorf("decisions %+v", d)
	}
	do(t, c.Session("whole").Branch(t.Context(), "s1", 0))
	if asked != 4 {
		t.Error("asked about a whole copy")
	}
	r.EmptyInbox(t)
	r.Verify(t, "refused-at")
}

// sender is a model that sends its vendor a payload of this many bytes.
type sender struct {
	driver.Model
	bytes int

	mu   sync.Mutex
	sent []string
}

func (m *sender) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		payload, err := req.OnPayload(ctx, raw(map[string]string{"text": strings.Repeat("x", m.bytes)}))
		if err != nil {
			yield(schemas.StreamEvent{}, err)
			return
		}
		m.mu.Lock()
		m.sent = append(m.sent, string(payload))
		m.mu.Unlock()
		m.Model.Stream(ctx, req)(yield)
	}
}

// A service receives the request to a vendor over the bus and replaces it. A request that is too large for a message is
// sent unchanged, and the log has that.
func TestServicesSeeWhatIsSent(t *testing.T) {
	t.Parallel()
	ref := at(schemas.HookBeforeProviderRequest, "redact")
	for name, c := range map[string]struct {
		bytes int
		sent  string
		fails string
	}{
		"small":     {10, `{"text":"[redacted]"}`, ""},
		"too large": {2 << 20, `{"text":"xxx`, "and a message takes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &sender{Model: &rehearsal.Model{}, bytes: c.bytes}
			r := start(t, func(h *host.Options) { asks(ref)(h); h.Model = m })
			r.service(ref, func(req schemas.HookRequest) *schemas.HookAnswer {
				return &schemas.HookAnswer{Payload: raw(map[string]string{"text": "[redacted]"})}
			})
			log := r.Prompted(t, "s1", "hello", 1)
			if len(m.sent) != 1 || !strings.HasPrefix(m.sent[0], c.sent) {
				t.Errorf("sent %.100q", m.sent)
			}
			got := decisions(log, schemas.HookBeforeProviderRequest)
			if len(got) != 1 {
				t.Fatalf("%d decisions", len(got))
			}
			failed := len(got[0].Failures) == 1 && strings.Contains(got[0].Failures[0].Error, c.fails)
			if changed := cmp.Equal(got[0].Changed, []string{"payload"}); changed != (c.fails == "") || failed == changed {
				t.Errorf("decision %+v", got[0])
			}
			r.Verify(t, "s1")
		})
	}
}
