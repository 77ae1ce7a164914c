package history_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/schemas"
)

// start is when the first command of a test is sent. Each is sent and acknowledged one second after the one before it.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func command(n int, id string, kind schemas.CommandKind, text string) history.Command {
	sent := start.Add(time.Duration(n) * time.Second)
	return history.Command{Session: "s", ID: id, Kind: kind, Text: text, Sent: sent, Acked: sent.Add(time.Millisecond),
		Copies: 1}
}

// good returns a correct history: a run with an unsafe call, a steer that was applied, and an abort that came too late.
func good() history.History {
	user := func(text string) schemas.AnyMessage {
		return schemas.AnyMessage{Message: &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}}
	}
	reply := func(stop schemas.StopReason, content ...schemas.Content) schemas.AnyMessage {
		return schemas.AnyMessage{Message: &schemas.AssistantMessage{Content: content, StopReason: stop}}
	}
	call := schemas.ToolCall{ID: "call", Name: "bash", Arguments: json.RawMessage(`{}`)}
	result := schemas.AnyMessage{Message: &schemas.ToolResultMessage{ToolCallID: "call", ToolName: "bash"}}
	say := schemas.Text{Text: "said"}
	accepted := func(id string, kind schemas.CommandKind, q schemas.Queue, raw string) *schemas.CommandAccepted {
		return &schemas.CommandAccepted{CommandID: id, Kind: kind, Queue: q, Data: json.RawMessage(raw)}
	}
	data := []schemas.EventData{
		accepted("p", schemas.CommandPrompt, schemas.QueuePrompts, `{"text":"hello"}`),
		&schemas.AgentStart{Config: &schemas.RunConfig{}, Inputs: []string{"p"}},
		&schemas.TurnStart{},
		&schemas.MessageStart{MessageID: "m4", Role: schemas.RoleUser},
		&schemas.MessageEnd{MessageID: "m4", Message: user("hello")},
		&schemas.CommandApplied{CommandID: "p", Kind: schemas.CommandPrompt, MessageIDs: []string{"m4"}},
		&schemas.MessageStart{MessageID: "m7", Role: schemas.RoleAssistant},
		accepted("s", schemas.CommandSteer, schemas.QueueSteering, `{"text":"left"}`),
		&schemas.MessageEnd{MessageID: "m7", Message: reply(schemas.StopToolUse, call)},
		&schemas.ToolExecutionStart{ToolCallID: "call", ToolName: "bash", Args: json.RawMessage(`{}`)},
		&schemas.ToolExecutionEnd{ToolCallID: "call", ToolName: "bash", Call: "c10", Result: schemas.TextResult("")},
		&schemas.MessageStart{MessageID: "m12", Role: schemas.RoleToolResult, ToolCallID: "call", ToolName: "bash"},
		&schemas.MessageEnd{MessageID: "m12", Message: result},
		&schemas.TurnEnd{MessageID: "m7", ToolResults: []string{"m12"}},
		&schemas.QueueUpdate{Taken: []string{"s"}},
		&schemas.TurnStart{TurnIndex: 1},
		&schemas.MessageStart{MessageID: "m17", Role: schemas.RoleUser},
		&schemas.MessageEnd{MessageID: "m17", Message: user("left")},
		&schemas.CommandApplied{CommandID: "s", Kind: schemas.CommandSteer, MessageIDs: []string{"m17"}},
		&schemas.MessageStart{MessageID: "m20", Role: schemas.RoleAssistant},
		&schemas.MessageEnd{MessageID: "m20", Message: reply(schemas.StopStop, say)},
		&schemas.TurnEnd{MessageID: "m20"},
		&schemas.AgentEnd{TerminationReason: schemas.EndNoToolCalls},
		&schemas.CommandRejected{CommandID: "a", Kind: schemas.CommandAbort, Code: schemas.RejectNoRun},
	}
	h := history.History{
		Commands: []history.Command{command(0, "p", schemas.CommandPrompt, "hello"),
			command(1, "s", schemas.CommandSteer, "left"),
			command(2, "a", schemas.CommandAbort, "")},
		Logs: map[string][]schemas.Event{}, Executions: map[string]int{"s/c10": 1},
		Counted: func(session string, _ *schemas.ToolExecutionStart, key schemas.CallKey) (history.Call, bool) {
			return history.Call{Key: session + "/" + string(key), Effect: schemas.EffectUnsafe}, true
		},
	}
	for i, d := range data {
		e := schemas.Event{Session: "s", Seq: uint64(i + 1), Time: start.Add(time.Duration(i) * 100 * time.Millisecond),
			RunID: "r2", TurnID: "t3", Data: d}
		if i >= 15 {
			e.TurnID = "t16"
		}
		h.Logs["s"] = append(h.Logs["s"], e)
	}
	return h
}

func TestCorrectHistoryHasNoViolation(t *testing.T) {
	for _, v := range history.Check(good()) {
		t.Error(v)
	}
}

// data returns the payload of an event of the session, for the test to change.
func data[T schemas.EventData](h *history.History, seq int) T { return h.Logs["s"][seq-1].Data.(T) }

// put replaces the payload of an event.
func put(h *history.History, seq int, d schemas.EventData) { h.Logs["s"][seq-1].Data = d }

// add appends an event.
func add(h *history.History, d schemas.EventData) {
	log := h.Logs["s"]
	h.Logs["s"] = append(log, schemas.Event{Session: "s", Seq: uint64(len(log) + 1), Time: start, Data: d})
}

func TestViolationsAreReported(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(h *history.History)
		class  history.Class
		want   string
	}{
		{"an acknowledged command is not in the log", func(h *history.History) {
			h.Commands = append(h.Commands, command(3, "x", schemas.CommandAbort, ""))
		}, history.Lost, "but is not in the log"},
		{"a command has no outcome", func(h *history.History) {
			add(h, &schemas.CommandAccepted{CommandID: "x", Kind: schemas.CommandClearQueue})
			h.Commands = append(h.Commands, command(3, "x", schemas.CommandClearQueue, ""))
		}, history.Lost, "no outcome"},
		{"a command is accepted twice", func(h *history.History) { add(h, data[*schemas.CommandAccepted](h, 1)) },
			history.Doubled, "accepted 2 times"},
		{"a command is applied twice", func(h *history.History) { add(h, data[*schemas.CommandApplied](h, 6)) },
			history.Doubled, "2 outcomes"},
		{"a command is rejected and applied", func(h *history.History) {
			add(h, &schemas.CommandRejected{CommandID: "p", Kind: schemas.CommandPrompt})
		}, history.Doubled, "2 outcomes"},
		{"a command is rejected and was accepted", func(h *history.History) {
			put(h, 6, &schemas.CommandRejected{CommandID: "p", Kind: schemas.CommandPrompt})
		}, history.Shape, "rejected: true"},
		{"a command that no client sent", func(h *history.History) { h.Commands = h.Commands[:2] }, history.Foreign,
			"no client sent"},
		{"a session to which no client sent a command", func(h *history.History) { h.Commands = nil }, history.Foreign,
			"no client sent it a command"},
		{"a later command enters first", func(h *history.History) {
			h.Commands[0], h.Commands[1] = again(h.Commands[1], 0), again(h.Commands[0], 1)
		},
			history.Order, "entered the log first"},
		{"a command is withdrawn by an unknown command", func(h *history.History) {
			put(h, 19, &schemas.CommandWithdrawn{CommandID: "s", By: "x"})
		}, history.Shape, "not accepted before"},
		{"a run has no end", func(h *history.History) { put(h, 23, &schemas.QueueUpdate{}) }, history.Stuck, "has not ended"},
		{"a run starts in a run", func(h *history.History) { put(h, 15, &schemas.AgentStart{}) }, history.Shape, "is open"},
		{"a run starts with a withdrawn input", func(h *history.History) {
			put(h, 2, &schemas.CommandWithdrawn{CommandID: "p", By: "s"})
			put(h, 6, &schemas.AgentStart{Inputs: []string{"p"}})
		}, history.Doubled, "has an outcome already"},
		{"a turn has no end", func(h *history.History) { put(h, 14, &schemas.QueueUpdate{}) }, history.Shape, "is open"},
		{"a message has no end", func(h *history.History) { put(h, 21, &schemas.QueueUpdate{}) }, history.Stuck,
			"message m20"},
		{"a message ends that did not start", func(h *history.History) { put(h, 20, &schemas.QueueUpdate{}) }, history.Shape,
			"while \"\" is the open one"},
		{"a message differs from its command", func(h *history.History) { h.Commands[0].Text = "bye" }, history.Foreign,
			"command is \"bye\""},
		{"a steer is left in the queue", func(h *history.History) {
			put(h, 15, data[*schemas.AgentEnd](h, 23))
		}, history.Lost, "was queued for it"},
		{"a call has no result", func(h *history.History) { put(h, 11, &schemas.QueueUpdate{}) }, history.Stuck,
			"has no result"},
		{"a call has two results", func(h *history.History) { put(h, 15, data[*schemas.ToolExecutionEnd](h, 11)) },
			history.Doubled, "2 results"},
		{"a result without a call", func(h *history.History) { data[*schemas.ToolExecutionEnd](h, 11).Call = "c1" },
			history.Foreign, "not in the log"},
		{"a result is not in the transcript", func(h *history.History) {
			put(h, 12, &schemas.QueueUpdate{})
			put(h, 13, &schemas.QueueUpdate{})
		}, history.Result, "the results are of []"},
		{"an unsafe call is executed twice", func(h *history.History) { h.Executions["s/c10"] = 2 }, history.Doubled,
			"executed 2 times"},
		{"a success was not executed", func(h *history.History) { h.Executions = nil }, history.Result, "was never executed"},
		{"an execution without a call", func(h *history.History) { h.Executions["s/c1"] = 1 }, history.Foreign,
			"no log has a call"},
		{"an input stays queued", func(h *history.History) {
			add(h, &schemas.CommandAccepted{CommandID: "x", Kind: schemas.CommandPrompt, Queue: schemas.QueuePrompts,
				Data: json.RawMessage(`{"text":"x"}`)})
		}, history.Stuck, "still queued"},
		{"the log has a gap", func(h *history.History) { h.Logs["s"] = slices.Delete(h.Logs["s"], 14, 15) }, history.Shape,
			"cannot be folded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := good()
			c.change(&h)
			found := history.Check(h)
			if !slices.ContainsFunc(found, func(v history.Violation) bool {
				return v.Class == c.class && strings.Contains(v.What, c.want)
			}) {
				t.Errorf("no %s with %q among %v", c.class, c.want, found)
			}
		})
	}
}

// again returns the command as if it were the nth that was sent.
func again(cmd history.Command, n int) history.Command { return command(n, cmd.ID, cmd.Kind, cmd.Text) }

// A deleter's abort has an id of the inbox. It may come late, if there was a deletion.
func TestTheAbortOfADeleterMayComeLate(t *testing.T) {
	for deleted, data := range map[bool][]schemas.EventData{
		false: {&schemas.CommandRejected{CommandID: "cmd-9", Kind: schemas.CommandAbort, Code: schemas.RejectNoRun}},
		true: {&schemas.CommandRejected{CommandID: "cmd-8", Kind: schemas.CommandAbort, Code: schemas.RejectNoRun},
			&schemas.CommandAccepted{CommandID: "cmd-9", Kind: schemas.CommandAbort},
			&schemas.CommandApplied{CommandID: "cmd-9", Kind: schemas.CommandAbort}},
	} {
		h := good()
		for _, d := range data {
			add(&h, d)
		}
		if deleted {
			h.Deleted = map[string]time.Time{"s": time.Unix(1, 0)}
			h.Forgotten = func(string) bool { return false }
		}
		if found := history.Check(h); (len(found) == 0) != deleted {
			t.Errorf("deleted %t: %v", deleted, found)
		}
	}
}

func TestUnacknowledgedCommandMayEnterLateOrNever(t *testing.T) {
	h := good()
	loose := command(0, "x", schemas.CommandAbort, "")
	loose.Acked = time.Time{}
	h.Commands = append([]history.Command{loose}, h.Commands...)
	for _, v := range history.Check(h) {
		t.Errorf("not in the log: %s", v)
	}
	add(&h, &schemas.CommandRejected{CommandID: "x", Kind: schemas.CommandAbort, Code: schemas.RejectNoRun})
	for _, v := range history.Check(h) {
		t.Errorf("after a command that was sent later: %s", v)
	}
}
