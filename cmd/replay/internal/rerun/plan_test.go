package rerun_test

import (
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/replay/internal/rerun"
	"github.com/loopbus/loopbus/schemas"
)

// log yields events one second apart, all of the run r2 and its first turn.
func log(all ...schemas.EventData) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for i, data := range all {
			e := schemas.Event{Session: "s", Seq: uint64(i + 1), Time: time.Unix(int64(i), 0), RunID: "r2", TurnID: "t3",
				Data: data}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func text(s string) schemas.Contents { return schemas.Contents{schemas.Text{Text: s}} }

func user(s string) schemas.Message { return &schemas.UserMessage{Content: text(s)} }

func accepted(id string, kind schemas.CommandKind, queue schemas.Queue, data string) schemas.EventData {
	return &schemas.CommandAccepted{CommandID: id, Kind: kind, Queue: queue, Data: json.RawMessage(data)}
}

func start(id string, role schemas.Role) schemas.EventData {
	return &schemas.MessageStart{MessageID: id, Role: role, Model: "m"}
}

func end(id string, m schemas.Message) schemas.EventData {
	return &schemas.MessageEnd{MessageID: id, Message: schemas.AnyMessage{Message: m}}
}

// config is what the run of the tests is recorded with.
var config = &schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}, Tools: []schemas.ToolDefinition{
	{Name: "write", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"}}}`),
		ArgumentRewrites: []schemas.ArgumentRewrite{{Op: "rename", From: []string{"number"}, To: "n"}}},
	{Name: "read", Effect: schemas.EffectReadOnly}}}

// conversation is a prompt of two messages, its reply, and what waits then: a prompt, a steer and a follow-up.
func conversation() []schemas.EventData {
	reply := &schemas.AssistantMessage{Content: text("yes"), StopReason: schemas.StopStop}
	return []schemas.EventData{
		accepted("p", schemas.CommandPrompt, schemas.QueuePrompts,
			`{"messages":[{"role":"user","content":"one"},{"role":"user","content":"two"}]}`), // 1
		&schemas.AgentStart{Inputs: []string{"p"}, Config: config}, // 2
		&schemas.TurnStart{},          // 3
		start("m4", schemas.RoleUser), // 4
		end("m4", user("one")),        // 5
		start("m6", schemas.RoleUser), // 6
		end("m6", user("two")),        // 7
		&schemas.CommandApplied{CommandID: "p", Kind: schemas.CommandPrompt, MessageIDs: []string{"m4", "m6"}}, // 8
		start("m9", schemas.RoleAssistant),                                                 // 9
		accepted("f", schemas.CommandFollowUp, schemas.QueueFollowUp, `{"text":"follow"}`), // 10
		accepted("q", schemas.CommandPrompt, schemas.QueuePrompts, `{"text":"next"}`),      // 11
		end("m9", reply), // 12
		accepted("t", schemas.CommandSteer, schemas.QueueSteering, `{"text":"steer"}`), // 13
	}
}

// TestWhatIsSentAgain holds, for every event, what a rerun from there sends.
func TestWhatIsSentAgain(t *testing.T) {
	t.Parallel()
	want := []string{"one two", "one two", "one two", "one two", "two", "two", "", "", "", "", "", "follow", "steer"}
	for i, w := range want {
		p, err := rerun.NewPlan("s", uint64(i+1), log(conversation()...))
		if err != nil {
			t.Errorf("from %d: %v", i+1, err)
			continue
		}
		var said []string
		if p.Prompt != nil {
			for _, m := range p.Prompt.Messages {
				said = append(said, m.(*schemas.UserMessage).Content.JoinText())
			}
		}
		if got := strings.Join(said, " "); got != w || p.Seq != uint64(i+1) || p.Config.Model.ID != "m" {
			t.Errorf("from %d: %q up to %d with %q, want %q", i+1, got, p.Seq, p.Config.Model.ID, w)
		}
	}
	for name, c := range map[string]struct {
		at    uint64
		log   []schemas.EventData
		wants string
	}{
		"no log":     {1, nil, "session s has no log"},
		"behind it":  {14, conversation(), "has no event 14 that a copy can end at: it ends at 13"},
		"no context": {1, []schemas.EventData{&schemas.Name{Name: "x"}}, "nothing is asked there"},
		"a reply": {12, append(conversation()[:9], conversation()[11], conversation()[11], conversation()[11]),
			"nothing is asked there: the context is empty, or ends with a reply; its prompts are at 4, 6"},
	} {
		if _, err := rerun.NewPlan("s", c.at, log(c.log...)); err == nil || !strings.Contains(err.Error(), c.wants) {
			t.Errorf("%s: %v, want %q", name, err, c.wants)
		}
	}
}

// called are the events of calls: name, arguments, and result with the worker that gave it.
func called(events []schemas.EventData, calls ...[4]string) []schemas.EventData {
	for _, c := range calls {
		seq := len(events) + 1
		events = append(events,
			&schemas.ToolExecutionStart{ToolCallID: c[2], ToolName: c[0], Args: json.RawMessage(c[1])},
			&schemas.ToolExecutionEnd{ToolCallID: c[2], ToolName: c[0], Call: schemas.NewCallKey(uint64(seq)),
				Worker: c[3], IsError: strings.HasPrefix(c[2], "error"), Result: schemas.TextResult(c[2])})
	}
	return events
}

// TestAnswers holds which recorded answer a call gets: that of the same call, in order, each once, but for tools that
// only read.
func TestAnswers(t *testing.T) {
	t.Parallel()
	asked := &schemas.TranscriptReplaced{Messages: schemas.Messages{user("x")}}
	events := called([]schemas.EventData{asked, &schemas.AgentStart{Config: config}, &schemas.TurnStart{}},
		[4]string{"write", `{"n":1}`, "before", "w"})
	at := uint64(len(events))
	events = called(events,
		[4]string{"write", `{"number":"1"}`, "first", "w"}, [4]string{"write", `{"n":1}`, "second", "w"},
		[4]string{"write", `{"n":2}`, "error of the tool", "w"}, [4]string{"write", `{"n":3}`, "error of nobody", ""},
		[4]string{"read", `{"a":{"x":1,"y":2},"b":[1]}`, "read", "w"}, [4]string{"read", `{}`, "empty", "w"})
	p, err := rerun.NewPlan("s", at, log(events...))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, c := range [][2]string{{"write", `{"n":1}`}, {"write", `{ "n": 1 }`}, {"write", `{"n":1}`},
		{"write", `{"n":2}`}, {"write", `{"n":2}`}, {"write", `{"n":3}`}, {"read", `{"b":[1],"a":{"y":2,"x":1}}`},
		{"read", `{"b":[1],"a":{"y":2,"x":1}}`}, {"read", `{"b":[1]}`}, {"read", `{}`}, {"other", `{}`}} {
		key := schemas.NewCallKey(uint64(100 + i))
		g := p.Answers.Take(key, c[0], json.RawMessage(c[1]))
		if d := cmp.Diff(g.Seq, p.Answers.Take(key, c[0], json.RawMessage(c[1])).Seq); d != "" {
			t.Errorf("the same call gets another answer: %s", d)
		}
		answer := "missing"
		if !g.Missing {
			answer = events[g.Seq-1].(*schemas.ToolExecutionEnd).ToolCallID
		}
		got = append(got, answer)
	}
	want := []string{"first", "second", "missing", "error of the tool", "missing", "missing", "read", "read", "missing",
		"empty", "missing"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := len(p.Answers.Given()); n != len(want) {
		t.Errorf("%d calls were given, want %d", n, len(want))
	}
}

// TestAnswersOfReplacedArguments holds that a call is also the same if it has the arguments that a service or an
// approver has put in place of the model's.
func TestAnswersOfReplacedArguments(t *testing.T) {
	t.Parallel()
	events := []schemas.EventData{&schemas.TranscriptReplaced{Messages: schemas.Messages{user("x")}},
		&schemas.AgentStart{Config: config}, &schemas.TurnStart{}}
	at := uint64(len(events))
	key := schemas.NewCallKey(at + 1)
	events = append(events,
		&schemas.ToolExecutionStart{ToolCallID: "a", ToolName: "write", Args: json.RawMessage(`{"n":1}`)},
		&schemas.HookDecision{Hook: schemas.HookBeforeToolCall, ToolCallID: "a", Call: key, Ask: true,
			Args: json.RawMessage(`{"n":2}`)},
		&schemas.ApprovalRequested{ToolCallID: "a", ToolName: "write", Call: key, Args: json.RawMessage(`{"n":2}`)},
		&schemas.ApprovalResolved{ToolCallID: "a", Call: key, Approved: true, Args: json.RawMessage(`{"n":3}`)},
		&schemas.ToolExecutionEnd{ToolCallID: "a", ToolName: "write", Call: key, Worker: "w",
			Result: schemas.TextResult("done")})
	for args, found := range map[string]bool{`{"n":1}`: true, `{"n":2}`: true, `{"n":3}`: true, `{"n":4}`: false} {
		p, err := rerun.NewPlan("s", at, log(events...))
		if err != nil {
			t.Fatal(err)
		}
		if g := p.Answers.Take("c100", "write", json.RawMessage(args)); g.Missing == found {
			t.Errorf("%s: answered %t, want %t", args, !g.Missing, found)
		}
	}
}

// TestModel holds how a model is named.
func TestModel(t *testing.T) {
	t.Parallel()
	listed := []schemas.ModelInfo{{API: "x", Provider: "acme", ID: "a"}, {API: "y", Provider: "other", ID: "a"},
		{API: "y", Provider: "other", ID: "b"}}
	for name, want := range map[string]string{"acme/a": "x acme/a", "b": "y other/b", "other/new": "y other/new",
		"bus/acme/a": "bus bus/acme/a", "a": `model "a" is ambiguous: acme/a, other/a`,
		"c": `the runners know no model "c"`, "nobody/a": `the runners know no model "nobody/a"`,
		"acme/": `the runners know no model "acme/"`} {
		ref, err := rerun.Model(name, listed)
		got := ref.API + " " + ref.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
