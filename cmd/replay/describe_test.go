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
		if got := describe(data); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	with := describe(&schemas.ApprovalResolved{ToolCallID: "call_1", By: "a", Reason: "too much"})
	if with != "approval_resolved call_1 denied by a: too much" {
		t.Errorf("got %q", with)
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
