package history_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/schemas"
)

// family returns a correct history of a run that has started a background sub-agent and accepted its result.
func family() history.History {
	link := schemas.SubagentLink{Session: "s", Call: "c3", Nonce: "n", Depth: 1, MaxDepth: 1}
	accepted := func(id string, kind schemas.CommandKind, q schemas.Queue, data schemas.CommandData) schemas.EventData {
		raw, err := schemas.Marshal(data)
		if err != nil {
			panic(err)
		}
		return &schemas.CommandAccepted{CommandID: id, Kind: kind, Queue: q, Data: raw}
	}
	result := &schemas.SubagentResult{Call: "c3", Nonce: "n", Session: "child", Text: "done"}
	prompt := &schemas.SubagentPrompt{Parent: link, Text: "go"}
	logs := map[string][]schemas.EventData{
		"s": {
			accepted("p", schemas.CommandPrompt, schemas.QueuePrompts, &schemas.Prompt{Input: schemas.Input{Text: "hi"}}),
			&schemas.AgentStart{Config: &schemas.RunConfig{}, Inputs: []string{"p"}},
			&schemas.ToolExecutionStart{ToolCallID: "t", ToolName: schemas.ToolAgent, Nonce: "n",
				Args: json.RawMessage(`{"prompt":"go"}`)},
			&schemas.SubagentStart{Call: "c3", ToolCallID: "t", Session: "child", Depth: 1, MaxDepth: 1, Background: true},
			accepted(link.ResultID(), schemas.CommandSubagentResult, schemas.QueueFollowUp, result),
			&schemas.SubagentEnd{Call: "c3", Session: "child"},
		},
		"child": {
			accepted(link.PromptID(), schemas.CommandSubagentPrompt, schemas.QueuePrompts, prompt),
			&schemas.AgentStart{Config: &schemas.RunConfig{}, Inputs: []string{link.PromptID()}},
			&schemas.AgentEnd{TerminationReason: schemas.EndNoToolCalls},
			&schemas.SubagentReport{Session: "s", Call: "c3"},
		},
	}
	h := history.History{Logs: map[string][]schemas.Event{}}
	for session, log := range logs {
		for i, d := range log {
			h.Logs[session] = append(h.Logs[session], schemas.Event{Session: session, Seq: uint64(i + 1), Data: d})
		}
	}
	return h
}

// ofFamilies returns the violations about sub-agents. The logs of these tests are incomplete in other respects.
func ofFamilies(h history.History) (found []history.Violation) {
	for _, v := range history.Check(h) {
		if strings.Contains(v.What, "sub-agent") {
			found = append(found, v)
		}
	}
	return found
}

func TestCorrectFamilyHasNoViolation(t *testing.T) {
	t.Parallel()
	for _, v := range ofFamilies(family()) {
		t.Error(v)
	}
}

func TestBetweenSessionsReadsCommandsFromLogs(t *testing.T) {
	t.Parallel()
	sent := history.BetweenSessions(family().Logs, nil)
	got := make([]string, len(sent))
	for i, c := range sent {
		got[i] = c.Session + " " + c.ID + " " + string(c.Kind) + " " + c.Text
	}
	want := []string{
		"child subagent/s/c3/n subagent_prompt go", "child subagent/s/c3/n/abort subagent_abort ",
		"s subagent/s/c3/n/result subagent_result done",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestViolationsOfFamiliesAreReported(t *testing.T) {
	t.Parallel()
	put := func(h history.History, session string, seq int, d schemas.EventData) { h.Logs[session][seq-1].Data = d }
	add := func(h history.History, session string, d schemas.EventData) {
		h.Logs[session] = append(h.Logs[session],
			schemas.Event{Session: session, Seq: uint64(len(h.Logs[session]) + 1), Data: d})
	}
	nothing := new(schemas.QueueUpdate)
	for _, c := range []struct {
		name   string
		change func(h history.History)
		want   string
	}{
		{"started twice", func(h history.History) { add(h, "s", h.Logs["s"][3].Data) }, "was started 2 times"},
		{"of two parents", func(h history.History) { h.Logs["other"] = h.Logs["s"] }, "has started the same sub-agent"},
		{"without an end", func(h history.History) { put(h, "s", 6, nothing) }, "has no subagent_end"},
		{"ended twice", func(h history.History) { add(h, "s", h.Logs["s"][5].Data) }, "has 2 subagent_end"},
		{"aborted twice", func(h history.History) {
			for range 2 {
				add(h, "s", &schemas.SubagentAborted{Call: "c3", Session: "child"})
			}
		}, "was aborted 2 times"},
		{"its result is no message", func(h history.History) { put(h, "s", 5, nothing) }, "became a message 0 times"},
		{"its result is two messages", func(h history.History) { put(h, "s", 2, h.Logs["s"][4].Data) },
			"became a message 2 times"},
		{"a message although it was aborted", func(h history.History) {
			put(h, "s", 5, &schemas.CommandAccepted{CommandID: "a", Kind: schemas.CommandAbort})
			h.Logs["s"] = slices.Insert(h.Logs["s"], 5, family().Logs["s"][4])
			for i := range h.Logs["s"] {
				h.Logs["s"][i].Seq = uint64(i + 1)
			}
		}, "instead of 0 times"},
		{"run twice", func(h history.History) { put(h, "child", 3, h.Logs["child"][1].Data) }, "ran 2 times"},
		{"reported its result twice", func(h history.History) { put(h, "child", 3, h.Logs["child"][3].Data) },
			"its result 2 times"},
		{"reported no result", func(h history.History) { put(h, "child", 4, nothing) }, "its result 0 times"},
		{"other usage", func(h history.History) {
			put(h, "s", 6, &schemas.SubagentEnd{Call: "c3", Session: "child", Usage: schemas.Usage{TotalTokens: 7}})
		}, "its parent counts 7"},
		{"without a parent", func(h history.History) { put(h, "s", 4, nothing) }, "no log has started"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := family()
			c.change(h)
			found := ofFamilies(h)
			if !slices.ContainsFunc(found, func(v history.Violation) bool { return strings.Contains(v.What, c.want) }) {
				t.Errorf("no %q among %v", c.want, found)
			}
		})
	}
}
