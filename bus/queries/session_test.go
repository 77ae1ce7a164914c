package queries_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// reachesBoth waits until indexes have a session at a sequence.
func reachesBoth(t testing.TB, seq uint64, id string, all ...*index.Index) {
	t.Helper()
	for _, ix := range all {
		bustest.Eventually(t, fmt.Sprintf("session %s is at seq %d", id, seq), func() bool {
			e := ix.Get(id)
			return e != nil && e.Summary.Seq >= seq
		})
	}
}

func TestStateAndStats(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runner()
	s := r.session(nil, "s1").run("p1", "list", "two").begin("p2", "remove").calls(`{"command":"rm"}`, `{"command":"ls"}`)
	s.say(accept("p3", strings.Repeat("later ", 200)))
	state := ask[schemas.SessionState](r, "agent.query.s1.state", "", "session_state")
	if state.Seq != s.state.Seq || state.Status != schemas.SessionWaitingForApproval || state.Messages != 4 ||
		state.Runs != 2 || state.Model.ID != "m-1" || state.Profile != "reviewer" || state.LastEnd == nil ||
		len(state.Prompts) != 1 || len(state.Prompts[0].Text) > 300 || state.Run.CommandID != "p2" ||
		len(state.Run.Calls) != 2 || !state.Run.Calls[0].Waiting || state.Run.Turns != 1 {
		t.Errorf("%+v %+v", state, state.Run)
	}
	stats := ask[schemas.SessionStats](r, "agent.query.s1.stats", "{}", "session_stats")
	want := schemas.SessionStats{Session: "s1", Seq: s.state.Seq, Runs: 2, Turns: 2, Messages: 4, Usage: s.state.Usage,
		Model: &schemas.ModelRef{Provider: "p", ID: "m-1"}, ContextTokens: 100, ContextWindow: 3000}
	if d := cmp.Diff(want, stats); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	tools := ask[schemas.ToolsPage](r, "agent.query.s1.tools", `{"limit":1}`, "tools_page")
	if len(tools.Tools) != 1 || tools.Tools[0].Name != "bash" || tools.Next == "" {
		t.Errorf("%+v", tools)
	}
	rest := ask[schemas.ToolsPage](r, "agent.query.s1.tools", `{"cursor":"`+tools.Next+`"}`, "tools_page")
	if len(rest.Tools) != 1 || rest.Tools[0].Name != "ls" || rest.Next != "" || rest.Seq != s.state.Seq {
		t.Errorf("%+v", rest)
	}
}

// An answer stands for the sequence it names: the events since then are exactly those that it lacks.
func TestAnswersNameTheirSequence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runner()
	s := r.session(nil, "s1").run("p1", "list", "two")
	state := ask[schemas.SessionState](r, "agent.query.s1.state", "", "session_state")
	none := ask[schemas.EventsPage](r, "agent.query.s1.events", fmt.Sprintf(`{"after":%d}`, state.Seq), "events_page")
	if len(none.Events) != 0 || none.More || none.Seq != state.Seq {
		t.Errorf("%+v", none)
	}
	s.run("p2", "again", "three")
	var got []uint64
	for after := state.Seq; ; {
		q := fmt.Sprintf(`{"after":%d,"limit":4}`, after)
		p := ask[schemas.EventsPage](r, "agent.query.s1.events", q, "events_page")
		for _, q := range p.Events {
			e, err := q.Event()
			if err != nil || e.Session != "s1" {
				t.Fatalf("%+v: %v", q, err)
			}
			got = append(got, e.Seq)
		}
		if after = got[len(got)-1]; !p.More {
			if after != p.Seq || p.Seq != s.state.Seq {
				t.Errorf("the last event is %d, the page stands for %d, the log for %d", after, p.Seq, s.state.Seq)
			}
			break
		}
	}
	for i, seq := range got {
		if seq != state.Seq+1+uint64(i) {
			t.Fatalf("events %v after %d", got, state.Seq)
		}
	}
}

func TestMessagesArePaged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runner()
	s := r.session(nil, "s1")
	const runs = 5
	for n := range runs {
		s.run(fmt.Sprint("p", n), fmt.Sprint("ask ", n), fmt.Sprint("say ", n))
	}
	var back []string
	request := `{"limit":3}`
	for {
		p := ask[schemas.MessagesPage](r, "agent.query.s1.messages", request, "messages_page")
		var page []string
		for _, m := range p.Messages {
			page = append(page, m.ID)
		}
		back = append(page, back...)
		if p.Seq != s.state.Seq || p.Newer != (request != `{"limit":3}`) {
			t.Errorf("%+v", p)
		}
		if !p.Older {
			break
		}
		request = `{"limit":3,"before":"` + page[0] + `"}`
	}
	var want []string
	for _, e := range s.state.Messages {
		want = append(want, e.ID)
	}
	if d := cmp.Diff(want, back); d != "" || len(want) != 2*runs {
		t.Errorf("backwards (-want +got):\n%s", d)
	}
	p := ask[schemas.MessagesPage](r, "agent.query.s1.messages", `{"after":"`+want[1]+`","limit":2}`, "messages_page")
	if len(p.Messages) != 2 || p.Messages[0].ID != want[2] || !p.Newer || !p.Older {
		t.Errorf("%+v", p)
	}
	m, err := schemas.DecodeMessage(p.Messages[0].Message)
	if err != nil || m.(*schemas.UserMessage).Content.JoinText() != "ask 1" {
		t.Errorf("%s: %v", p.Messages[0].Message, err)
	}
	r.refused("agent.query.s1.messages", `{"after":"m999"}`, schemas.QueryNotFound)
}

// What is larger than a message of NATS is paged, and what is by itself is named with its size.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runner()
	s := r.session(nil, "s1")
	const n = 6
	for i := range n {
		s.run(fmt.Sprint("p", i), "ask", strings.Repeat("x", 200<<10))
	}
	s.run("big", "ask", strings.Repeat("y", 2<<20))
	got, omitted := 0, 0
	for request := `{"limit":1000}`; ; {
		p := ask[schemas.MessagesPage](r, "agent.query.s1.messages", request, "messages_page")
		for _, m := range p.Messages {
			if got++; m.Message == nil {
				if omitted++; m.Size < 2<<20 {
					t.Errorf("%s has %d bytes", m.ID, m.Size)
				}
			}
		}
		if !p.Older {
			break
		}
		request = `{"limit":1000,"before":"` + p.Messages[0].ID + `"}`
	}
	if got != 2*(n+1) || omitted != 1 {
		t.Errorf("%d messages, %d without content", got, omitted)
	}
	events, omitted := uint64(0), 0
	for more := true; more; {
		q := fmt.Sprintf(`{"after":%d,"limit":1000}`, events)
		p := ask[schemas.EventsPage](r, "agent.query.s1.events", q, "events_page")
		for _, e := range p.Events {
			if e.Data == nil {
				omitted++
			}
			if events++; e.ID != fmt.Sprintf("s1/%d", events) {
				t.Fatalf("event %s is the %d.", e.ID, events)
			}
		}
		more = p.More
	}
	if events != s.state.Seq || omitted != 1 {
		t.Errorf("%d events of %d, %d without data", events, s.state.Seq, omitted)
	}
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix, _ := r.runner()
	long := `{"command":"` + strings.Repeat("x", 5000) + `"}`
	for n := range 3 {
		r.session(ix, fmt.Sprint("s", n)).begin("p1", "do").calls(`{"command":"ls"}`, long)
	}
	r.session(ix, "quiet").run("p1", "x", "y")
	whole(t, ix, 4)
	bustest.Eventually(t, "all calls are known", func() bool {
		p := ask[schemas.ApprovalsPage](r, "agent.query.approvals", "", "approvals_page")
		return len(p.Approvals) == 6
	})
	var got []string
	for request := `{"limit":2}`; request != ""; {
		p := ask[schemas.ApprovalsPage](r, "agent.query.approvals", request, "approvals_page")
		for _, a := range p.Approvals {
			got = append(got, a.Session+"/"+string(a.Call))
			if (a.Args == nil) != (a.ArgsSize > 0) || a.Expires == nil || a.Reason != "bash asks" {
				t.Errorf("%+v", a)
			}
		}
		if request = ""; p.Next != "" {
			request = `{"limit":2,"cursor":"` + p.Next + `"}`
		}
	}
	if len(got) != 6 || got[0][:2] != "s0" || got[5][:2] != "s2" {
		t.Errorf("%v", got)
	}
	one := ask[schemas.ApprovalsPage](r, "agent.query.s1.approvals", "", "approvals_page")
	if len(one.Approvals) != 2 || one.Approvals[0].Session != "s1" || one.Seq == 0 || one.Revision != 0 {
		t.Errorf("%+v", one)
	}
	s := r.session(ix, "s1")
	s.say(&schemas.ApprovalResolved{Call: one.Approvals[0].Call, ToolCallID: "t0", Approved: true})
	bustest.Eventually(t, "one is answered", func() bool {
		return len(ask[schemas.ApprovalsPage](r, "agent.query.approvals", "", "approvals_page").Approvals) == 5
	})
	if now := ask[schemas.ApprovalsPage](r, "agent.query.s1.approvals", "", "approvals_page"); len(now.Approvals) != 1 {
		t.Errorf("%+v", now)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix, _ := r.runner()
	r.session(ix, "root").run("p1", "secret title", "x")
	r.session(ix, "stranger").run("p1", "x", "y")
	for _, b := range [][2]string{{"a", "root"}, {"b", "root"}, {"a1", "a"}} {
		r.session(ix, b[0]).say(&schemas.SessionBranched{Session: b[1], Seq: 7, Messages: schemas.Messages{}})
	}
	whole(t, ix, 5)
	for _, of := range []string{"root", "a", "a1"} {
		tree := ask[schemas.SessionTree](r, "agent.query."+of+".tree", "", "session_tree")
		var got []string
		for _, n := range tree.Nodes {
			name := n.Session
			if n.Parent != nil {
				name += "<" + n.Parent.Session
			}
			got = append(got, name)
		}
		if all := strings.Join(got, " "); all != "a<root a1<a b<root root" || tree.Partial || tree.Revision == 0 {
			t.Errorf("%s: %s, partial %v", of, all, tree.Partial)
		}
		raw, _ := json.Marshal(tree.Nodes)
		if strings.Contains(string(raw), "secret") {
			t.Errorf("relatives are shown: %s", raw)
		}
	}
}

// A session's tree comes in pages, with its leaf, its name and its labels.
func TestEntriesOfATree(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix, _ := r.runner()
	s := r.session(ix, "s1").say(&schemas.SessionBranched{Session: "s0", Seq: 3, Messages: schemas.Messages{
		&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "copied"}}}, &schemas.AssistantMessage{},
	}}).run("p1", "one", "first")
	reply := s.state.Tree.Leaf
	s.say(&schemas.Leaf{TargetID: "b1.0", OldLeafID: reply}, &schemas.Custom{CustomType: "todo"})
	s.run("p2", "two", "second").say(&schemas.Label{TargetID: reply, Label: "good"}, &schemas.Name{Name: "a tree"})
	var all []schemas.TreeEntry
	request := schemas.PageQuery{Limit: 3}
	for pages := 1; ; pages++ {
		raw, _ := schemas.Marshal(request)
		page := ask[schemas.SessionTree](r, "agent.query.s1.tree", string(raw), "session_tree")
		if page.Leaf != s.state.Tree.Leaf || page.Name != "a tree" || page.Seq != s.state.Seq ||
			(len(page.Nodes) > 0) != (pages == 1) {
			t.Errorf("page %d: %+v", pages, page)
		}
		all = append(all, page.Entries...)
		if request.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprint(e.Type, " ", e.Role, e.CustomType, " ", e.Text, " ", e.Label))
		if parent := slices.IndexFunc(all, func(p schemas.TreeEntry) bool { return p.ID == e.Parent }); parent >= 0 {
			got[len(got)-1] += fmt.Sprint("<", parent)
		}
	}
	want := []string{"message user copied ", "message assistant  <0", "message user one <1", "message assistant first good<2",
		"custom todo  ", "message user two <4", "message assistant second <5"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("entries (-want +got):\n%s", d)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.runner()
	s := r.session(nil, "s1").run("p1", "x", "y").say(accept("p2", "later"))
	for id, want := range map[string]schemas.EventType{"p1": schemas.EventCommandApplied,
		"p2": schemas.EventCommandAccepted} {
		got := ask[schemas.Outcome](r, "agent.query.s1.outcome", `{"commandId":"`+id+`"}`, "outcome")
		e, err := got.Event.Event()
		if err != nil || e.Type() != want || got.Seq != s.state.Seq {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	r.refused("agent.query.s1.outcome", `{"commandId":"p9"}`, schemas.QueryNotFound)
}

func TestWhatCannotBeAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix, _ := r.runner()
	r.session(nil, "s1").run("p1", "x", "y")
	for _, kind := range []string{"state", "messages", "events", "tree", "stats", "tools", "approvals"} {
		r.refused("agent.query.none."+kind, "", schemas.QueryNotFound)
		if reason := r.refused("agent.query.s1."+kind, `{"limit":"many"}`, schemas.QueryInvalid); !strings.Contains(reason,
			"limit") {
			t.Errorf("%s: %s", kind, reason)
		}
		r.refused("agent.query.s1."+kind, "no JSON", schemas.QueryInvalid)
		r.refused("agent.query.a%b."+kind, "", schemas.QueryInvalid)
	}
	r.refused("agent.query.none.outcome", `{"commandId":"p1"}`, schemas.QueryNotFound)
	r.refused("agent.query.s1.outcome", ``, schemas.QueryInvalid)
	for subject, request := range map[string]string{
		sessionsSubject: `{"cursor":"%%%"}`, "agent.query.approvals": `{"cursor":"eyJvIjotMX0"}`,
		"agent.query.s1.tools": `{"cursor":"bm8"}`, "agent.query.s1.messages": `{"before":"m1","after":"m2"}`,
		"agent.query.s1.events": `{"after":1,"x":"` + strings.Repeat("x", 20<<10) + `"}`,
	} {
		r.refused(subject, request, schemas.QueryInvalid)
	}
	spoilt := &nats.Msg{Subject: "agent.evt.s1", Header: nats.Header{schemas.HeaderCommit: {"v2 11-11"}}}
	if _, err := r.conn.JetStream().PublishMsg(t.Context(), spoilt); err != nil {
		t.Fatal(err)
	}
	r.refused("agent.query.s1.state", "", schemas.QueryDamaged)
	bustest.Eventually(t, "it is listed as damaged", func() bool {
		e := ix.Get("s1")
		return e != nil && e.Summary.Status == schemas.SessionDamaged
	})
	r.refused("agent.query.s1.stats", "", schemas.QueryDamaged)
}

// One runner may end at any time: the other has the same to say.
func TestARunnerEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, stop := r.runner()
	two, _ := r.runner()
	s := r.session(one, "s1").run("p1", "first", "x")
	reachesBoth(t, s.state.Seq, "s1", one, two)
	s.run("p2", "second", "y")
	s.track = nil // it dies before it has written
	stop()
	s.run("p3", "third", "z")
	bustest.Eventually(t, "the list is as the log", func() bool {
		p := ask[schemas.SessionsPage](r, sessionsSubject, "", "sessions_page")
		return len(p.Sessions) == 1 && p.Sessions[0].Seq == s.state.Seq && p.Sessions[0].Runs == 3
	})
	if state := ask[schemas.SessionState](r, "agent.query.s1.state", "", "session_state"); state.Seq != s.state.Seq {
		t.Errorf("%+v", state)
	}
}
