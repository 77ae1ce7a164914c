package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// holding is a model that holds back replies to a last message that contains "hold" until it is released.
type holding struct {
	driver.Model
	asked    chan string // sessions whose replies are held back
	released chan struct{}
	release  func()
}

func newHolding(m driver.Model) *holding {
	h := &holding{Model: m, asked: make(chan string, 100), released: make(chan struct{})}
	h.release = sync.OnceFunc(func() { close(h.released) })
	return h
}

func (h *holding) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	last, ok := req.Messages[len(req.Messages)-1].(*schemas.UserMessage)
	if !ok || !strings.HasPrefix(last.Content.JoinText(), "hold") {
		return h.Model.Stream(ctx, req)
	}
	return func(yield func(schemas.StreamEvent, error) bool) {
		h.asked <- req.SessionID
		select {
		case <-h.released:
		case <-ctx.Done():
		}
		for e, err := range h.Model.Stream(ctx, req) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// family returns a rig whose model can be held back.
func family(t *testing.T, change func(h *host.Options)) (*rig, *holding) {
	t.Helper()
	var held *holding
	r := start(t, func(h *host.Options) {
		held = newHolding(h.Model)
		h.Model = held
		if change != nil {
			change(h)
		}
	})
	t.Cleanup(held.release)
	return r, held
}

// calls returns a prompt that makes the model call the tool agent once with each of the arguments, in one reply.
func calls(args ...map[string]any) string {
	var lines []string
	for _, a := range args {
		lines = append(lines, "call agent "+string(raw(a)))
	}
	return strings.Join(lines, "\n")
}

// began returns the sub-agents that a log has started.
func began(log []schemas.Event) []*schemas.SubagentStart {
	return system.DataOf[*schemas.SubagentStart](log)
}

// settled returns the log of a child once its parent has the result.
func (r *rig) settled(session string) []schemas.Event {
	r.t.Helper()
	return r.Until(r.t, session, "the report", func(e schemas.Event) bool {
		return e.Type() == schemas.EventSubagentReport
	})
}

// atRest waits until nothing is in flight for a session.
func (r *rig) atRest(session string) {
	r.t.Helper()
	system.Eventually(r.t, "session "+session+" rests", func() bool {
		stream, err := r.conn.JetStream().Stream(r.t.Context(), schemas.StreamCommands)
		if err != nil {
			r.t.Fatal(err)
		}
		info, err := stream.Info(r.t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			r.t.Fatal(err)
		}
		for subject := range info.State.Subjects {
			if strings.Contains(subject, "."+session+".") {
				return false
			}
		}
		return true
	})
}

// A call starts a session and waits for it at rest. Its result is the last message of that session.
func TestASubagentAnswersItsCall(t *testing.T) {
	t.Parallel()
	r, held := family(t, nil)
	r.Prompt(t, "s1", calls(map[string]any{"prompt": "hold on", "name": "helper"}))
	child := <-held.asked
	r.atRest("s1")
	held.release()
	log := r.Until(t, "s1", "the end", system.Ends(1))

	starts, ends := began(log), system.DataOf[*schemas.SubagentEnd](log)
	if len(starts) != 1 || starts[0].Session != child || starts[0].Depth != 1 || starts[0].Name != "helper" {
		t.Fatalf("begun %s", raw(starts))
	}
	if len(ends) != 1 || ends[0].Session != child || ends[0].IsError || ends[0].Usage.TotalTokens == 0 {
		t.Errorf("ended %s", raw(ends))
	}
	childs := r.settled(child)
	said := system.DataOf[*schemas.MessageEnd](childs)
	last := said[len(said)-1].Message.Message.(*schemas.AssistantMessage).Content.JoinText()
	if d := cmp.Diff([]string{last}, results(log)); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	end := system.DataOf[*schemas.AgentEnd](log)[0]
	if own := system.DataOf[*schemas.AgentEnd](childs)[0].Usage; end.Usage.TotalTokens <= own.TotalTokens {
		t.Errorf("the run has used %d tokens, its sub-agent %d", end.Usage.TotalTokens, own.TotalTokens)
	}
	r.EmptyInbox(t)
	r.Verify(t, "s1")
	r.Verify(t, child)
}

// Sub-agents of one reply run concurrently, and each call has its own result.
func TestSubagentsWorkSideBySide(t *testing.T) {
	t.Parallel()
	r, held := family(t, nil)
	r.Prompt(t, "s1", calls(map[string]any{"prompt": "hold a"}, map[string]any{"prompt": "hold b"},
		map[string]any{"prompt": "hold c"}))
	children := map[string]bool{<-held.asked: true, <-held.asked: true, <-held.asked: true}
	held.release()
	log := r.Until(t, "s1", "the end", system.Ends(1))
	if len(children) != 3 || len(results(log)) != 3 || len(system.DataOf[*schemas.SubagentEnd](log)) != 3 {
		t.Errorf("children %v, results %q", children, results(log))
	}
	for child := range children {
		r.Verify(t, child)
	}
	r.EmptyInbox(t)
	r.Verify(t, "s1")
}

// With a background sub-agent the run continues, and the result starts a new run.
func TestASubagentInTheBackground(t *testing.T) {
	t.Parallel()
	r, held := family(t, nil)
	r.Prompt(t, "s1", calls(map[string]any{"prompt": "hold", "background": true, "name": "slow"}))
	child := <-held.asked
	log := r.Until(t, "s1", "the end", system.Ends(1))
	want := fmt.Sprintf("The sub-agent works in session %s. Its result will come as a message.", child)
	if d := cmp.Diff([]string{want}, results(log)); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	r.atRest("s1")
	held.release()
	log = r.Until(t, "s1", "the second end", system.Ends(2))
	said := system.Said(log)
	if len(said) != 2 || !strings.HasPrefix(said[1], "The sub-agent (slow, session "+child+") has finished:\n\n") {
		t.Errorf("user messages %q", said)
	}
	r.settled(child)
	r.EmptyInbox(t)
	if ends := system.DataOf[*schemas.AgentEnd](r.LogOf(t, "s1")); len(ends) != 2 {
		t.Errorf("%d runs", len(ends))
	}
	r.Verify(t, "s1")
}

// A run that joins its background sub-agents does not end before them.
func TestARunJoinsItsBackground(t *testing.T) {
	t.Parallel()
	r, held := family(t, nil)
	r.Prompt(t, "s1",
		calls(map[string]any{"prompt": "hold", "background": true, "join": true}))
	child := <-held.asked
	turns := 0
	r.Until(t, "s1", "the second turn's end", func(e schemas.Event) bool {
		if e.Type() == schemas.EventTurnEnd {
			turns++
		}
		return turns == 2
	})
	r.atRest("s1")
	held.release()
	log := r.Until(t, "s1", "the end", system.Ends(1))
	if said := system.Said(log); len(said) != 2 || !strings.Contains(said[1], child) {
		t.Errorf("user messages %q", said)
	}
	r.EmptyInbox(t)
	r.Verify(t, "s1")
}

// An abort reaches all descendants, and the usage of all of them is counted.
func TestAnAbortReachesTheFamily(t *testing.T) {
	t.Parallel()
	for _, how := range []map[string]any{{}, {"background": true}} {
		t.Run(string(raw(how)), func(t *testing.T) {
			t.Parallel()
			r, held := family(t, nil)
			inner := calls(map[string]any{"prompt": "hold", "background": how["background"] != nil})
			args := map[string]any{"prompt": inner}
			for k, v := range how {
				args[k] = v
			}
			r.Prompt(t, "s1", calls(args))
			grandchild := <-held.asked
			child := began(r.LogOf(t, "s1"))[0].Session
			r.Send(t, "s1", &schemas.Abort{})
			r.Until(t, "s1", "the child's end", func(e schemas.Event) bool { return e.Type() == schemas.EventSubagentEnd })
			for _, session := range []string{grandchild, child} {
				log := r.settled(session)
				if d := cmp.Diff([]schemas.TerminationReason{schemas.EndAbort}, system.Reasons(log)); d != "" {
					t.Errorf("ends of %s (-want +got):\n%s", session, d)
				}
				r.Verify(t, session)
			}
			r.EmptyInbox(t)
			log := r.LogOf(t, "s1")
			if n := len(system.DataOf[*schemas.AgentEnd](log)); n != 1 {
				t.Errorf("%d runs, want no more after the abort", n)
			}
			if c := system.DataOf[*schemas.SubagentAborted](log); len(c) != 1 || c[0].Session != child {
				t.Errorf("aborted %s", raw(c))
			}
			r.Verify(t, "s1")
		})
	}
}

// A call that the limits of sub-agents forbid has an error result with the reason, and starts no session.
func TestWhatASubagentMayNot(t *testing.T) {
	t.Parallel()
	r, _ := family(t, nil)
	r.profile("plain", schemas.Profile{Extensions: []string{}})
	r.profile("lead", schemas.Profile{
		Extensions: []string{schemas.ToolAgent}, Tools: []string{"echo", "note", schemas.ToolAgent},
		Subagents: &schemas.SubagentPolicy{Profiles: []string{"plain", "gone"}, MaxOpen: 1, MaxPerRun: 2},
	})
	r.profile("housed", schemas.Profile{
		Extensions: []string{schemas.ToolAgent}, Workspace: "w",
		Subagents: &schemas.SubagentPolicy{Profiles: []string{"plain"}},
	})
	for i, c := range []struct {
		profile string
		args    []map[string]any
		want    []string
	}{
		{"lead", []map[string]any{{"prompt": "hi", "profile": "other"}},
			[]string{`A sub-agent may not follow the profile "other"`}},
		{"lead", []map[string]any{{"prompt": "hi", "workspace": "w"}},
			[]string{`A sub-agent may not work in the workspace "w"`}},
		{"housed", []map[string]any{{"prompt": "hi", "profile": "plain", "workspace": "w"}},
			[]string{`A sub-agent may not work in the workspace "w"`}}, // the profile has a different workspace
		{"lead", []map[string]any{{"prompt": "hi", "model": "x/y"}}, []string{`A sub-agent may not use the model "x/y"`}},
		{"lead", []map[string]any{{"prompt": "hi", "tools": []string{"careful"}}},
			[]string{`A sub-agent cannot have the tool "careful", which this session has not`}},
		{"lead", []map[string]any{{"prompt": "hi", "profile": "gone"}},
			[]string{"The sub-agent's run ended: error: profile of session CHILD: "}},
		{"lead", []map[string]any{{"prompt": "hi"}, {"prompt": "hi"}},
			[]string{"No more than 1 sub-agents may be at work: wait for one of them", "This is rehearsal"}},
		{"plain", []map[string]any{{"prompt": "hi"}}, nil},
	} {
		session := fmt.Sprint("s", i)
		r.follow(session, c.profile)
		log := r.Prompted(t, session, calls(c.args...), 1)
		got := results(log)
		for j := range got {
			for _, b := range began(log) {
				got[j] = strings.ReplaceAll(got[j], b.Session, "CHILD")
			}
			if j < len(c.want) && strings.HasPrefix(got[j], c.want[j]) {
				got[j] = c.want[j]
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s %s: results (-want +got):\n%s", c.profile, raw(c.args), d)
		}
		for _, end := range system.DataOf[*schemas.ToolExecutionEnd](log) {
			if end.IsError == strings.HasPrefix(end.Result.Content.JoinText(), "This is rehearsal") {
				t.Errorf("%s: error %v: %s", raw(c.args), end.IsError, end.Result.Content.JoinText())
			}
		}
		r.Verify(t, session)
	}
	r.EmptyInbox(t)
}

// The depth is limited by the profiles of all ancestors, whatever profile a descendant follows.
func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	r, _ := family(t, nil)
	r.profile("deep", schemas.Profile{Extensions: []string{schemas.ToolAgent},
		Subagents: &schemas.SubagentPolicy{MaxDepth: 100}})
	r.profile("lead", schemas.Profile{Extensions: []string{schemas.ToolAgent},
		Subagents: &schemas.SubagentPolicy{MaxDepth: 1, Profiles: []string{"deep"}}})
	r.follow("s1", "lead")
	inner := calls(map[string]any{"prompt": "hi"})
	log := r.Prompted(t, "s1", calls(map[string]any{"prompt": inner, "profile": "deep"}), 1)
	child := r.settled(began(log)[0].Session)
	if d := cmp.Diff([]string{"Sub-agents may be nested 1 deep at most"}, results(child)); d != "" {
		t.Errorf("results of the child (-want +got):\n%s", d)
	}
}

// A sub-agent may use its share of the budget, and its usage counts as its parent's.
func TestASubagentHasAShareOfTheBudget(t *testing.T) {
	t.Parallel()
	r, _ := family(t, func(h *host.Options) { h.Defaults.Limits.MaxTokens = 100_000 })
	r.model.usage = schemas.Usage{Output: 10_000, TotalTokens: 10_000}
	again := "call note {}"
	log := r.Prompted(t, "s1", calls(map[string]any{"prompt": again, "budget": 0.1}), 1)
	start, end := began(log)[0], system.DataOf[*schemas.SubagentEnd](log)[0]
	if start.MaxTokens != 9_000 || end.Reason != schemas.EndBudget || !end.IsError || end.Usage.TotalTokens != 10_000 {
		t.Errorf("begun with %d tokens, ended %s", start.MaxTokens, raw(end))
	}
	if got := results(log); len(got) != 1 || !strings.HasPrefix(got[0], "The sub-agent's run ended: budget") {
		t.Errorf("results %q", got)
	}
	if used := system.DataOf[*schemas.AgentEnd](log)[0].Usage.TotalTokens; used != 30_000 {
		t.Errorf("the run has used %d tokens, want those of its two replies and the sub-agent's one", used)
	}
}

// A share so small that nothing is left of it is a limit all the same.
func TestASubagentWithATinyShareIsLimited(t *testing.T) {
	t.Parallel()
	r, _ := family(t, func(h *host.Options) { h.Defaults.Limits.MaxCost = 0.04 })
	log := r.Prompted(t, "s1", calls(map[string]any{"prompt": "x", "budget": 5e-324}), 1)
	if start := began(log)[0]; start.MaxCost <= 0 || start.MaxCost > 1e-6 {
		t.Errorf("begun with a limit of %g", start.MaxCost)
	}
}

// A runner is lost while the child runs: the next runner continues both sessions.
func TestARunnerIsLostWhileAChildWorks(t *testing.T) {
	t.Parallel()
	r, held := family(t, nil)
	r.Prompt(t, "s1", calls(map[string]any{"prompt": "hold"}, map[string]any{"prompt": "hold",
		"background": true, "join": true}))
	<-held.asked
	<-held.asked
	r.atRest("s1")
	r.Stop()
	next := system.StartRunner(t, r.URL, system.RunnerOptions{Model: held, Inbox: busInbox("next"),
		Host: func(h *host.Options) { h.Policy.Extensions = schemas.ExtensionTools() }})
	held.release()
	log := r.Until(t, "s1", "the end", system.Ends(1))
	if len(results(log)) != 2 || len(system.DataOf[*schemas.SubagentEnd](log)) != 2 || len(system.Said(log)) != 2 {
		t.Errorf("results %q, user messages %q", results(log), system.Said(log))
	}
	for _, b := range began(log) {
		system.Verify(t, next.Store, b.Session)
	}
	system.Verify(t, next.Store, "s1")
}

// Only a parent that has started a child knows its id. A forged prompt writes only to the log of the session to which
// it was sent, and a forged result writes to no log.
func TestForgedLinksDoNothing(t *testing.T) {
	t.Parallel()
	r, held := family(t, nil)
	r.Prompt(t, "s1", calls(map[string]any{"prompt": "hold"}))
	child := <-held.asked
	start := began(r.LogOf(t, "s1"))[0]
	nonce := system.DataOf[*schemas.ToolExecutionStart](r.LogOf(t, "s1"))[0].Nonce
	before := len(r.LogOf(t, "s1"))

	link := schemas.SubagentLink{Session: "s1", Call: start.Call, Nonce: "guessed", Depth: 1, MaxDepth: 9}
	known := link
	known.Nonce = nonce // known to readers of the parent's log; the child has a different id
	for i, l := range []schemas.SubagentLink{link, known,
		{Session: "mine1", Call: "c9", Nonce: "n", Depth: 1, MaxDepth: 1}} {
		session := fmt.Sprint("mine", i)
		r.Publish(t, session, schemas.CommandSubagentPrompt,
			string(withID(l.PromptID(), schemas.SubagentPrompt{Parent: l, Text: "hi"})))
		r.Publish(t, session, schemas.CommandSubagentAbort, string(withID(l.AbortID(), schemas.SubagentAbort{Parent: l})))
		var codes []string
		r.Until(t, session, "both refusals", func(e schemas.Event) bool {
			if d, ok := e.Data.(*schemas.CommandRejected); ok {
				codes = append(codes, string(d.Code))
			}
			return len(codes) == 2
		})
		if d := cmp.Diff([]string{string(schemas.RejectPermission), string(schemas.RejectNotFound)}, codes); d != "" {
			t.Errorf("%+v: codes (-want +got):\n%s", l, d)
		}
	}
	for _, result := range []schemas.SubagentResult{
		{Call: start.Call, Nonce: "guessed", Session: child, Text: "forged"},
		{Call: start.Call, Nonce: nonce, Session: "mine1", Text: "forged"},
		{Call: "c1", Nonce: nonce, Session: child, Text: "forged"},
	} {
		r.Publish(t, "s1", schemas.CommandSubagentResult, string(withID(result.ID("s1"), result)))
	}
	r.atRest("s1")
	if log := r.LogOf(t, "s1"); len(log) != before {
		t.Errorf("the parent's log has %d more events", len(log)-before)
	}
	held.release()
	log := r.Until(t, "s1", "the end", system.Ends(1))
	if got := results(log); len(got) != 1 || strings.Contains(got[0], "forged") {
		t.Errorf("results %q", got)
	}
}

// withID returns the JSON of a command with its id.
func withID(id string, data any) json.RawMessage {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw(data), &members); err != nil {
		panic(err)
	}
	members["id"] = raw(id)
	return raw(members)
}
