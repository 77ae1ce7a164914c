package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// A reason that nobody gave leaves neither a colon nor a "by" behind.
func TestNothingIsSaidOfAnEmptyReason(t *testing.T) {
	t.Parallel()
	for want, data := range map[string]schemas.EventData{
		"command_rejected abort c2, invalid": &schemas.CommandRejected{CommandID: "c2", Kind: schemas.CommandAbort,
			Code: schemas.RejectInvalid},
		"run_resumed after 8":              &schemas.RunResumed{From: 8},
		"auto_retry_start 1 of 3 in 2s":    &schemas.AutoRetryStart{Attempt: 1, MaxAttempts: 3, DelayMs: 2000},
		"auto_retry_end after 3":           &schemas.AutoRetryEnd{Attempt: 3},
		"error provider (the run goes on)": &schemas.ErrorEvent{Code: "provider", Recoverable: true},
		"error provider":                   &schemas.ErrorEvent{Code: "provider"},
		"approval_requested bash call_1 {}": &schemas.ApprovalRequested{ToolCallID: "call_1", ToolName: "bash",
			Args: json.RawMessage(`{}`)},
		"approval_resolved call_1 approved":    &schemas.ApprovalResolved{ToolCallID: "call_1", Approved: true},
		"approval_resolved call_1 denied by a": &schemas.ApprovalResolved{ToolCallID: "call_1", By: "a"},
		"hook_decision tool_call blocks call_1": &schemas.HookDecision{Hook: "tool_call", ToolCallID: "call_1",
			Block: true},
	} {
		if got := describe(data, maxLine); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	with := describe(&schemas.ApprovalResolved{ToolCallID: "call_1", By: "a", Reason: "too much"}, maxLine)
	if with != "approval_resolved call_1 denied by a: too much" {
		t.Errorf("got %q", with)
	}
}

// What services decided is said with all that they changed: who reads it must not take for untouched what was replaced.
func TestDecisionsOfHooksAreSaid(t *testing.T) {
	t.Parallel()
	text, yes := "be\nbrief", true
	said := schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "hi"}}}}
	for want, d := range map[string]*schemas.HookDecision{
		"beforeToolCall lets pass call_1":                         {ToolCallID: "call_1"},
		"beforeToolCall lets pass call_1, decided by p: harmless": {ToolCallID: "call_1", By: "p", Reason: "harmless"},
		`beforeToolCall changes call_1, arguments {"a":1}, decided by p`: {ToolCallID: "call_1", By: "p",
			Args: json.RawMessage(`{"a":1}`)},
		`beforeToolCall asks for approval of call_1, arguments {"a":1}`: {ToolCallID: "call_1", Ask: true,
			Args: json.RawMessage(`{"a":1}`)},
		"afterToolCall changes call_1, new content, isError": {ToolCallID: "call_1",
			Changed: []string{"content", "isError"}},
		"afterToolCall lets pass call_1; no answer of p: away; no answer of q: gone": {ToolCallID: "call_1",
			Failures: []schemas.HookFailure{{Service: "p", Error: "away"}, {Service: "q", Error: "gone"}}},
		"input handles c1, no run gets it, decided by p": {CommandID: "c1", Handled: true, By: "p"},
		`input changes c1, messages [{"role":"user","content":[{"type":"text","text":"hi"}]}], from a.md`: {
			CommandID: "c1", Messages: said, Sources: []schemas.PromptSource{{Path: "a.md"}}},
		`before_agent_start changes c1, system prompt "be\nbrief"`:      {CommandID: "c1", SystemPrompt: &text},
		"message_end changes m3, new message":                           {MessageID: "m3", Changed: []string{"message"}},
		"context changes, new messages (not in the log)":                {Changed: []string{"messages"}},
		"before_provider_request changes, new payload (not in the log)": {Changed: []string{"payload"}},
		"session_before_compact blocks":                                 {Block: true},
		`session_before_compact changes, compaction {"summary":"s","firstKeptEntryId":"m3"}`: {
			Compaction: &schemas.SuppliedCompaction{Summary: "s", FirstKeptEntryID: "m3"}},
		`session_before_tree changes c1, summary "s", instructions "be\nbrief", instructions replace the usual ones: true, ` +
			`label "be\nbrief"`: {CommandID: "c1", Summary: "s", CustomInstructions: &text, ReplaceInstructions: &yes,
			Label: &text},
	} {
		hook, _, _ := strings.Cut(want, " ")
		d.Hook = schemas.HookName(hook)
		if got := describe(d, 0); got != "hook_decision "+want {
			t.Errorf("got  %s\nwant hook_decision %s", got, want)
		}
	}
}

// The arguments that a call was executed with are in every text of a session, if they are not the model's.
func TestReplacedArgumentsAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wr := w.writer("s1")
	said, made, edited := `{"command":"echo SAID"}`, `{"command":"echo MADE"}`, `{"command":"echo EDITED"}`
	refused := `{"command":"echo REFUSED"}`
	call := func(id string) schemas.Content {
		return schemas.ToolCall{ID: id, Name: "bash", Arguments: json.RawMessage(said)}
	}
	wr.append(
		&schemas.AgentStart{Config: &schemas.RunConfig{Model: schemas.ModelRef{ID: "m1"}}},
		&schemas.TurnStart{},
		&schemas.MessageStart{MessageID: "m3", Role: schemas.RoleAssistant},
		&schemas.MessageEnd{MessageID: "m3", Message: schemas.AnyMessage{Message: &schemas.AssistantMessage{
			Content: schemas.Contents{call("call_1"), call("call_2")}, StopReason: schemas.StopToolUse}}},
	)
	for i, id := range []string{"call_1", "call_2"} {
		key := schemas.NewCallKey(wr.event.Seq + 1)
		wr.append(&schemas.ToolExecutionStart{ToolCallID: id, ToolName: "bash", Args: json.RawMessage(said)})
		decision := &schemas.HookDecision{Hook: schemas.HookBeforeToolCall, ToolCallID: id, Call: key, By: "policy",
			Args: json.RawMessage(made), Ask: true}
		if i == 1 {
			decision.Block, decision.Args = true, json.RawMessage(refused)
		}
		wr.append(decision)
		if i == 0 {
			wr.append(&schemas.ApprovalRequested{Call: key, ToolCallID: id, ToolName: "bash", Args: json.RawMessage(made)},
				&schemas.ApprovalResolved{Call: key, ToolCallID: id, Approved: true, By: "ann", Args: json.RawMessage(edited)})
		}
		wr.append(&schemas.ToolExecutionEnd{ToolCallID: id, ToolName: "bash", Call: key, Worker: "w1",
			Result: schemas.TextResult("done")})
	}
	// A client cannot claim it for a call.
	wr.append(&schemas.Custom{CustomType: "loopbus.replaced_arguments", Data: json.RawMessage(`{"toolCallId":"call_2"}`)},
		&schemas.AddMessage{CustomType: "loopbus.replaced_arguments", Display: true,
			Content: schemas.Contents{schemas.Text{Text: "x"}}})
	for _, args := range [][]string{{"show", "s1"}, {"export", "s1", "--format", "pi"},
		{"export", "s1", "--format", "html"}, {"export", "s1", "--format", "md"}} {
		got := w.replay(args...)
		expect(t, got, cli.StatusOK, "echo MADE", "")
		for text, times := range map[string]int{"echo SAID": 2, "echo MADE": 1, "echo EDITED": 1, "echo REFUSED": 0} {
			if n := strings.Count(got.stdout, text); n != times {
				t.Errorf("%v has %q %d times, want %d:\n%s", args, text, n, times, got.stdout)
			}
		}
		if args[0] == "export" && strings.Count(got.stdout, "client:loopbus.replaced") != 2 && args[3] != "md" {
			t.Errorf("%v does not tell a client's entry:\n%s", args, got.stdout)
		}
	}
}

// A session one call of which waits for approval says so, whatever its other calls do, until somebody has answered;
// and a run of one turn has "1 turn".
func TestListSaysWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wr := w.writer("s1")
	reply := schemas.AnyMessage{Message: &schemas.AssistantMessage{Content: schemas.Contents{
		schemas.ToolCall{ID: "call_1", Name: "read", Arguments: json.RawMessage(`{}`)},
		schemas.ToolCall{ID: "call_2", Name: "bash", Arguments: json.RawMessage(`{}`)},
	}, StopReason: schemas.StopToolUse}}
	wr.append(
		&schemas.AgentStart{Config: &schemas.RunConfig{Model: schemas.ModelRef{ID: "m1"}}},
		&schemas.TurnStart{},
		&schemas.MessageStart{MessageID: "m3", Role: schemas.RoleAssistant},
		&schemas.MessageEnd{MessageID: "m3", Message: reply},
		&schemas.ToolExecutionStart{ToolCallID: "call_1", ToolName: "read", Args: json.RawMessage(`{}`)},
	)
	state := func(want string) {
		t.Helper()
		got := w.replay("list")
		expect(t, got, cli.StatusOK, "  "+want+"  ", "")
		if strings.Count(got.stdout, "waiting for") != 1 {
			t.Errorf("got %s", got.stdout)
		}
	}
	state(stateWaiting)
	wr.append(
		&schemas.ToolExecutionStart{ToolCallID: "call_2", ToolName: "bash", Args: json.RawMessage(`{}`)},
		&schemas.ApprovalRequested{Call: "c6", ToolCallID: "call_2", ToolName: "bash", Args: json.RawMessage(`{}`)},
	)
	state("waiting for approval")
	expect(t, w.replay("list", "--json"), cli.StatusOK, `"state":"waiting for approval"`, "")
	wr.append(&schemas.ApprovalResolved{Call: "c6", ToolCallID: "call_2", Approved: true, By: "a"})
	state(stateWaiting)
	wr.append(&schemas.AgentEnd{TerminationReason: schemas.EndAbort, Turns: 1})
	expect(t, w.replay("show", "s1"), cli.StatusOK, "  1 turn, ", "")
}
