package loop_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// dice makes events of which few fit the state.
type dice struct{ *rand.Rand }

func (d dice) id(prefix string) string { return fmt.Sprintf("%s%d", prefix, d.IntN(6)) }

func (d dice) message() schemas.Message {
	switch d.IntN(4) {
	case 0:
		return &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "hi"}}}
	case 1:
		return &schemas.ToolResultMessage{ToolCallID: d.id("t"), ToolName: "echo"}
	case 2:
		return &schemas.CustomMessage{Role: "note", Raw: json.RawMessage(`{"role":"note","text":"x"}`)}
	}
	stops := []schemas.StopReason{
		schemas.StopStop, schemas.StopToolUse, schemas.StopLength, schemas.StopError, schemas.StopAborted,
	}
	m := &schemas.AssistantMessage{StopReason: stops[d.IntN(len(stops))]}
	for range d.IntN(3) {
		m.Content = append(m.Content, schemas.ToolCall{ID: d.id("t"), Name: "echo", Arguments: json.RawMessage(`{}`)})
	}
	return m
}

func (d dice) command() schemas.CommandData {
	in := schemas.Input{Messages: schemas.Messages{d.message()}}
	all := []schemas.CommandData{
		&schemas.Prompt{Input: in}, &schemas.Prompt{Input: in, WhenBusy: schemas.BusyInterrupt}, &schemas.Steer{Input: in},
		&schemas.FollowUp{Input: in}, &schemas.Abort{ClearQueue: d.IntN(2) == 0}, &schemas.Continue{}, &schemas.ClearQueue{},
		&schemas.CancelInput{InputID: d.id("c")}, &schemas.SetModel{Model: schemas.ModelRef{ID: "m"}},
		&schemas.SetTools{Tools: []string{"echo"}},
		&schemas.SetTools{Tools: []string{}}, &schemas.SetModes{SteeringMode: schemas.QueueAll},
		&schemas.SetSystemPrompt{SystemPrompt: "s"}, &schemas.SetThinkingLevel{ThinkingLevel: schemas.ThinkingHigh},
		&schemas.Navigate{TargetID: d.id("m"), Label: "x"}, &schemas.Label{TargetID: d.id("m"), Label: "y"},
		&schemas.Name{Name: "n"}, &schemas.Custom{CustomType: "c"}, &schemas.AddMessage{CustomType: "c"},
		&schemas.Timer{Name: schemas.TimerRunDeadline, RunID: d.id("r")},
	}
	return all[d.IntN(len(all))]
}

func (d dice) follows() []schemas.Follow {
	list := []schemas.Follow{}
	for range d.IntN(3) {
		all := []schemas.Follow{
			{Type: schemas.EventCommandApplied}, {Type: schemas.EventCommandApplied, CommandID: d.id("c")},
			{Type: schemas.EventCommandSuperseded, CommandID: d.id("c"), Kind: schemas.CommandPrompt},
			{Type: schemas.EventCommandWithdrawn, CommandID: d.id("c"), Kind: schemas.CommandSteer},
			{Type: schemas.EventApprovalResolved}, {Type: "future"}, {Type: schemas.EventLabel},
			{Type: schemas.EventSessionInfo}, {Type: schemas.EventCustom}, {Type: schemas.EventCustomMessage},
			{Type: schemas.EventApprovalResolved, Resolved: &schemas.ApprovalResolved{Call: schemas.NewCallKey(d.Uint64N(30))}},
		}
		list = append(list, all[d.IntN(len(all))])
	}
	return list
}

func (d dice) event() schemas.EventData {
	queues := []schemas.Queue{
		schemas.QueuePrompts, schemas.QueueSteering, schemas.QueueFollowUp, schemas.QueueInterrupt, "",
	}
	roles := []schemas.Role{schemas.RoleUser, schemas.RoleAssistant, schemas.RoleToolResult, "note"}
	c := d.command()
	raw, err := schemas.Marshal(c)
	if err != nil {
		panic(err)
	}
	key := schemas.NewCallKey(d.Uint64N(30))
	all := []schemas.EventData{
		&schemas.AgentStart{
			Config: &schemas.RunConfig{Tools: []schemas.ToolDefinition{{Name: "echo"}}}, Inputs: []string{d.id("c"), d.id("c")},
		},
		&schemas.AgentEnd{TerminationReason: schemas.EndError}, &schemas.TurnStart{}, &schemas.TurnEnd{MessageID: d.id("m")},
		&schemas.MessageStart{MessageID: d.id("m"), Role: roles[d.IntN(4)], ToolCallID: d.id("t")},
		&schemas.MessageEnd{
			MessageID: d.id("m"), Message: schemas.AnyMessage{Message: d.message()},
			Interrupted: d.IntN(4) == 0, Failure: d.IntN(4) == 0,
		},
		&schemas.ToolExecutionStart{ToolCallID: d.id("t"), ToolName: "echo"},
		&schemas.ToolExecutionEnd{
			ToolCallID: d.id("t"), ToolName: "echo", Call: key, Result: schemas.ToolResult{Terminate: d.IntN(2) == 0},
		},
		&schemas.CommandAccepted{CommandID: d.id("c"), Kind: c.CommandKind(), Queue: queues[d.IntN(5)], Data: raw},
		&schemas.CommandAccepted{
			CommandID: d.id("c"), Kind: c.CommandKind(), Queue: queues[d.IntN(5)], Data: raw, Follows: d.follows(),
		},
		&schemas.CommandAccepted{CommandID: d.id("c"), Kind: "future", Data: json.RawMessage(`[`), Follows: d.follows()},
		&schemas.CommandApplied{CommandID: d.id("c")}, &schemas.CommandRejected{CommandID: d.id("c")},
		&schemas.CommandSuperseded{CommandID: d.id("c")}, &schemas.CommandWithdrawn{CommandID: d.id("c")},
		&schemas.QueueUpdate{Taken: []string{d.id("c")}}, &schemas.RunResumed{},
		&schemas.HookDecision{Call: key, Block: true},
		&schemas.TranscriptReplaced{Messages: schemas.Messages{d.message()}, ClearQueues: d.IntN(2) == 0},
		&schemas.ErrorEvent{}, &schemas.Leaf{TargetID: d.id("m"), LeafID: d.id("m"), Keep: d.id("m")},
		&schemas.Leaf{LeafID: d.id("m"), Entries: []schemas.TreeMessage{{ID: d.id("m"),
			Message: schemas.AnyMessage{Message: d.message()}}}, Summary: &schemas.BranchSummary{Summary: "s"}},
		&schemas.Label{TargetID: d.id("m"), Label: d.id("l")}, &schemas.Label{TargetID: d.id("m")}, &schemas.Name{Name: "x"},
		&schemas.Custom{CustomType: "c"}, &schemas.AddMessage{CustomType: "c"},
		&schemas.SessionBranched{Labels: []schemas.CopiedLabel{{Message: -1}, {Message: 7}}},
	}
	return all[d.IntN(len(all))]
}

// next returns, two times out of three, what a driver would append, so that random logs get somewhere.
func (d dice) next(s *loop.State) (schemas.EventData, string) {
	if d.IntN(3) == 0 {
		return d.event(), d.id("c")
	}
	switch step := loop.Next(s).(type) {
	case loop.Emit:
		return step.Data, step.CausationID
	case loop.StartRun:
		start := &schemas.AgentStart{SkipSteering: step.SkipSteering}
		for _, in := range step.Inputs {
			start.Inputs = append(start.Inputs, in.CommandID)
		}
		return start, ""
	case loop.CallModel:
		if s.Run.Turn.Streaming == "" {
			return &schemas.MessageStart{MessageID: s.MessageID(), Role: schemas.RoleAssistant}, ""
		}
		return &schemas.MessageEnd{MessageID: s.Run.Turn.Streaming, Message: schemas.AnyMessage{Message: d.message()}}, ""
	case loop.RunTools:
		c := s.Run.Turn.Calls[step.Calls[0]]
		if c.Key == "" {
			return &schemas.ToolExecutionStart{ToolCallID: c.ToolCall.ID, ToolName: c.ToolCall.Name}, ""
		}
		return &schemas.ToolExecutionEnd{ToolCallID: c.ToolCall.ID, Call: c.Key, Result: schemas.TextResult("ok")}, ""
	}
	return d.event(), ""
}

func apply(t *testing.T, s *loop.State, data schemas.EventData, cause string) schemas.Event {
	t.Helper()
	e := s.Envelope(data)
	e.Session, e.CausationID, e.Time = "s1", cause, time.Unix(int64(e.Seq), 0).UTC()
	if err := s.Apply(e); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestFoldIsTotalAndTheSameFromEverySnapshot plays random events: nothing panics, and to fold a prefix, save it as a
// snapshot, load that and fold the rest gives the same state as to fold the whole.
func TestFoldIsTotalAndTheSameFromEverySnapshot(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		whole := &loop.State{Session: "s1"}
		var events []schemas.Event
		for range 120 {
			data, cause := d.next(whole)
			events = append(events, apply(t, whole, data, cause))
			loop.Accept(whole, schemas.Command{ID: d.id("c"), Data: d.command()}, nil, loop.Rules{})
			whole.Stop()
			whole.AtFollowUpPoll()
			whole.PendingToolCalls()
		}
		want := marshal(t, whole)
		cut := d.IntN(len(events))
		resumed := &loop.State{Session: "s1"}
		for i, e := range events {
			if i == cut {
				loaded := &loop.State{}
				if err := json.Unmarshal(marshal(t, resumed), loaded); err != nil {
					t.Fatalf("seed %d: snapshot after %d: %v", seed, i, err)
				}
				resumed = loaded
			}
			if err := resumed.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(want), string(marshal(t, resumed))); diff != "" {
			t.Fatalf("seed %d: snapshot after %d of %d (-whole +resumed):\n%s", seed, cut, len(events), diff)
		}
		// A nil list that leaves a choice to the runner differs from an empty one, which may be encoded alike.
		if diff := cmp.Diff(whole.Settings, resumed.Settings); diff != "" {
			t.Fatalf("seed %d: settings after a snapshot after %d of %d (-whole +resumed):\n%s", seed, cut, len(events), diff)
		}
	}
}

func marshal(t *testing.T, s *loop.State) []byte {
	t.Helper()
	raw, err := schemas.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestNextDoesNotChangeTheState(t *testing.T) {
	t.Parallel()
	d := dice{rand.New(rand.NewPCG(7, 7))}
	s := &loop.State{Session: "s1"}
	for range 500 {
		before := marshal(t, s)
		loop.Next(s)
		loop.Accept(s, schemas.Command{ID: "x", Data: d.command()}, nil, loop.Rules{})
		if diff := cmp.Diff(string(before), string(marshal(t, s))); diff != "" {
			t.Fatal(diff)
		}
		data, cause := d.next(s)
		apply(t, s, data, cause)
	}
}

func TestApplyRefusesEventsOutOfSequence(t *testing.T) {
	t.Parallel()
	s := &loop.State{Session: "s1"}
	for _, e := range []schemas.Event{
		{Session: "s1", Seq: 2, Data: &schemas.TurnStart{}}, {Session: "s2", Seq: 1, Data: &schemas.TurnStart{}},
		{Session: "s1", Seq: 0, Data: &schemas.TurnStart{}},
	} {
		if s.Apply(e) == nil {
			t.Errorf("took %s", e.ID())
		}
	}
	if s.Seq != 0 {
		t.Errorf("seq %d", s.Seq)
	}
}

// FuzzFold decodes its input as a log and folds it.
func FuzzFold(f *testing.F) {
	f.Add([]byte(`{"commandId":"c1","kind":"prompt","queue":"prompts","data":{"text":"hi"}}`), []byte(`{"inputs":["c1"]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := &loop.State{Session: "s1"}
		for _, raw := range [][]byte{first, second} {
			for _, kind := range schemas.DurableEventTypes() {
				data, err := schemas.DecodeEventData(kind, raw)
				if err != nil {
					continue
				}
				apply(t, s, data, "")
				loop.Next(s)
			}
		}
	})
}

func TestLaterResultsOfACallChangeNothing(t *testing.T) {
	t.Parallel()
	s := &loop.State{Session: "s1"}
	reply := &schemas.AssistantMessage{
		Content: schemas.Contents{schemas.ToolCall{ID: "t1", Name: "echo"}}, StopReason: schemas.StopToolUse,
	}
	var key schemas.CallKey
	for _, data := range []schemas.EventData{
		&schemas.AgentStart{}, &schemas.TurnStart{}, &schemas.MessageStart{MessageID: "m3", Role: schemas.RoleAssistant},
		&schemas.MessageEnd{MessageID: "m3", Message: schemas.AnyMessage{Message: reply}},
		&schemas.ToolExecutionStart{ToolCallID: "t1", ToolName: "echo"},
	} {
		key = schemas.NewCallKey(apply(t, s, data, "").Seq)
	}
	for _, text := range []string{"first", "second"} {
		apply(t, s, &schemas.ToolExecutionEnd{ToolCallID: "t1", Call: key, Result: schemas.TextResult(text)}, "")
	}
	if got := s.Call(key).End.Result.Content.JoinText(); got != "first" {
		t.Errorf("the result is %q", got)
	}
}
