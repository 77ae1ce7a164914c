package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// twoModels are one that has made the record, and one that makes a call with the members of its arguments in another
// order, one that is not in the log, and one that failed there.
func twoModels() map[string]driver.Model {
	return map[string]driver.Model{
		"m1": scripted.New(note("Looking.", `{"n":1,"text":"a"}`, `{"n":0}`), note("Again.", `{"n":1,"text":"a"}`),
			scripted.Text("Done by m1.")),
		"m2": scripted.New(note("Looking.", `{"text":"a","n":1}`), note("More.", `{"n":9}`),
			note("Then.", `{"n":1,"text":"a"}`, `{"n":0}`, `{"n":1,"text":"a"}`), scripted.Text("Done by m2.")),
	}
}

const notInTheLog = "error: This run is answered from the log of session s1, which has no such call of note, or none " +
	"that is left. Nothing was executed."

// TestRerunWithAnotherModel holds what a rerun with recorded tools is: a branch that another model goes on with, whose
// calls are answered from the log in its order where they are in it, and nothing executed.
func TestRerunWithAnotherModel(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoModels())
	r.runner("r1")
	r.prompted("s1", "note it")
	before, executed := r.log("s1"), r.executed()
	at := r.at("s1", 1, begins(schemas.RoleUser))
	got := r.replay("rerun", "s1", "--at", at, "--model", "test/m2", "--id", "again", "--thinking-level", "high")
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, want := range []string{"session again: as s1 up to event " + at + "\n", "note it\n", "Done by m2.\n",
		"3 calls answered from the log of s1, 2 not in it\n", `: note {"n":9}` + "\n",
		"\nreplay diff s1 again shows where they diverge\n"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("the output has no %q:\n%s", want, got.stdout)
		}
	}
	want := []string{`note {"n":1,"text":"a"} as number 1`, notInTheLog, `note {"n":1,"text":"a"} as number 3`,
		"error: nothing to note", notInTheLog}
	if d := cmp.Diff(want, sorted(r.results("again"), want)); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	if r.executed() != executed {
		t.Errorf("tools were executed: %v", r.ran[executed:])
	}
	if d := cmp.Diff(before, r.log("s1")); d != "" {
		t.Errorf("the original has changed (-before +after):\n%s", d)
	}
	first, ok := r.log("again")[0].Data.(*schemas.SessionBranched)
	if !ok || first.Session != "s1" {
		t.Errorf("the rerun begins with %+v", r.log("again")[0].Data)
	}
	for _, req := range r.asked.Requests("again") {
		if req.Model != ref("m2") || req.ThinkingLevel != schemas.ThinkingHigh {
			t.Errorf("asked %s at %s", req.Model, req.ThinkingLevel)
		}
	}
	r.nothingLeft()
}

// sorted brings results of calls that were made together into the order that is wanted.
func sorted(got, want []string) []string {
	used := make([]bool, len(got))
	var out []string
	for _, w := range want {
		for i, g := range got {
			if g == w && !used[i] {
				used[i] = true
				out = append(out, g)
				break
			}
		}
	}
	for i, g := range got {
		if !used[i] {
			out = append(out, g)
		}
	}
	return out
}

// nothingLeft wants no tool of a rerun announced, and no queue of one on the server.
func (r *rig) nothingLeft() {
	r.t.Helper()
	announced, err := r.client.Tools(r.ctx())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, tool := range announced {
		if tool.Workspace != "" {
			r.t.Errorf("%s is still announced for %s", tool.Name, tool.Workspace)
		}
	}
	stream, err := r.conn.JetStream().Stream(r.ctx(), schemas.StreamTools)
	if err != nil {
		r.t.Fatal(err)
	}
	for name := range stream.ConsumerNames(r.ctx()).Name() {
		if strings.Contains(name, "rerun") {
			r.t.Errorf("the consumer %s is left", name)
		}
	}
}

// TestRerunStopsAtACallThatIsNotInTheLog holds that with --missing stop no model is asked after such a call.
func TestRerunStopsAtACallThatIsNotInTheLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoModels())
	r.runner("r1")
	r.prompted("s1", "note it")
	got := r.replay("rerun", "s1", "--at", "1", "--model", "m2", "--id", "again", "--missing", "stop", "--json")
	var o outcome
	if err := json.Unmarshal([]byte(got.stdout), &o); err != nil || got.code != 1 ||
		!strings.Contains(got.stderr, "the run of session again ended with abort_signal") {
		t.Fatalf("%v, %+v", err, got)
	}
	if o.Session != "again" || o.Parent.Session != "s1" || o.Missing != 1 || len(o.Answered) != 2 ||
		!o.Answered[1].Missing || o.Answered[0].Seq == 0 {
		t.Errorf("%+v", o)
	}
	if n := len(r.asked.Requests("again")); n != 2 {
		t.Errorf("the model was asked %d times, want 2", n)
	}
}

// TestRerunGoesOnInTheMiddle holds what a rerun in the middle of a run is: the transcript up to there, then the next
// model call with the recorded model; and that live tools are executed.
func TestRerunGoesOnInTheMiddle(t *testing.T) {
	t.Parallel()
	models := twoModels()
	r := newRig(t, models)
	r.runner("r1")
	r.prompted("s1", "note it")
	for _, c := range []struct {
		name, at string
		messages int // that the model is shown first
		live     bool
		executes int
	}{
		{"a prompt", r.at("s1", 1, begins(schemas.RoleUser)), 1, true, 3},
		{"an-end-of-a-prompt", r.at("s1", 1, is[*schemas.MessageEnd]), 1, false, 0},
		{"a-reply", r.at("s1", 1, begins(schemas.RoleAssistant)), 1, false, 0},
		{"one-of-two-results", r.at("s1", 1, begins(schemas.RoleToolResult)), 1, false, 0},
		{"all-results", r.at("s1", 2, begins(schemas.RoleToolResult)), 4, true, 1},
		{"a-turns-end", r.at("s1", 1, is[*schemas.TurnEnd]), 4, false, 0},
		{"the-last-reply", r.at("s1", 3, begins(schemas.RoleAssistant)), 6, false, 0},
	} {
		session := strings.ReplaceAll(c.name, " ", "-")
		executed := r.executed()
		args := []string{"rerun", "s1", "--at", c.at, "--id", session}
		if c.live {
			args = append(args, "--tools", "live")
		}
		if got := r.replay(args...); got.code != 0 || !strings.Contains(got.stdout, "Done by m1.") {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		asked := r.asked.Requests(session)
		if len(asked[0].Messages) != c.messages || asked[0].Model != ref("m1") {
			t.Errorf("%s: %s was first shown %d messages, want %d", c.name, asked[0].Model, len(asked[0].Messages), c.messages)
		}
		if got := r.executed() - executed; got != c.executes {
			t.Errorf("%s: %d tools executed, want %d", c.name, got, c.executes)
		}
	}
	end := r.at("s1", 1, is[*schemas.AgentEnd])
	got := r.replay("rerun", "s1", "--at", end)
	if prompt := r.at("s1", 1, begins(schemas.RoleUser)); got.code != 1 || !strings.Contains(got.stderr,
		"nothing is asked there: the context is empty, or ends with a reply; its prompts are at "+prompt) {
		t.Errorf("%+v", got)
	}
}

func is[T schemas.EventData](e schemas.Event) bool {
	_, ok := e.Data.(T)
	return ok
}

// TestRerunRepeatsWhatIsRead holds that a tool that only reads may be asked more often than the log did.
func TestRerunRepeatsWhatIsRead(t *testing.T) {
	t.Parallel()
	look := schemas.ToolCall{Name: "look", Arguments: json.RawMessage(`{"n":3}`)}
	r := newRig(t, map[string]driver.Model{"m1": scripted.New(scripted.Calls("", look), scripted.Text("m1")),
		"m2": scripted.New(scripted.Calls("", look), scripted.Calls("", look), scripted.Text("m2"))})
	r.runner("r1")
	r.prompted("s1", "look")
	if got := r.replay("rerun", "s1", "--at", "1", "--model", "m2", "--id", "again"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	want := []string{`look {"n":3} as number 1`, `look {"n":3} as number 1`}
	if d := cmp.Diff(want, r.results("again")); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

// TestRerunAtTheCommandLine holds what is refused before anything is done.
func TestRerunAtTheCommandLine(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoModels())
	r.agentSession()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"rerun", "agent"}, 2, "rerun needs --at"},
		{[]string{"rerun", "--at", "3"}, 2, "wrong number of arguments: replay rerun SESSION"},
		{[]string{"rerun", "agent", "--at", "3", "--tools", "bash"}, 2, `--tools: "bash" is not one of recorded, live`},
		{[]string{"rerun", "agent", "--at", "3", "--missing", "live"}, 2, `--missing: "live" is not one of error, stop`},
		{[]string{"rerun", "agent", "--at", "3", "--tools", "live", "--missing", "stop"}, 2,
			"--missing: needs --tools recorded"},
		{[]string{"rerun", "agent", "--at", "3", "--thinking-level", "all"}, 2, "--thinking-level"},
		{[]string{"rerun", "agent", "--at", "3", "--id", "a b"}, 2, `a b`},
		{[]string{"rerun", "agent", "--at", "3", "--store", t.TempDir()}, 2, "rerun needs a running server with a runner"},
		{[]string{"rerun", "agent", "--at", "99"}, 1, "session agent has no event 99 that a copy can end at: it ends at 30"},
		{[]string{"rerun", "nobody", "--at", "9"}, 1, "session nobody has no log"},
		{[]string{"rerun", "agent", "--at", "30"}, 1, "its prompts are at 6, 24"},
	} {
		if got := r.replay(c.args...); got.code != c.code || !strings.Contains(got.stderr, c.says) {
			t.Errorf("%v: %+v, want %d and %q", c.args, got, c.code, c.says)
		}
	}
	r.runner("r1")
	if got := r.replay("rerun", "agent", "--at", "6", "--model", "m3"); got.code != 2 ||
		!strings.Contains(got.stderr, `the runners know no model "m3"`) {
		t.Errorf("%+v", got)
	}
	env := map[string]string{"LOOPBUS_NATS": r.server.ClientURL(), "LOOPBUS_TOOLS": "bash,read", "LOOPBUS_ID": "r7"}
	got := invoke(t, env, "rerun", "agent", "--at", "30")
	if got.code != 1 || !strings.Contains(got.stderr, "its prompts are at 6, 24") {
		t.Errorf("with the runner's settings in the environment: %+v", got)
	}
}
