package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/replay/internal/compare"
	"github.com/loopbus/loopbus/schemas"
)

// branchSession writes a branch of the session "agent" after its first prompt, which goes another way.
func (w *world) branchSession() {
	w.t.Helper()
	call := schemas.ToolCall{ID: "other", Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)}
	text := func(s string) schemas.Contents { return schemas.Contents{schemas.Text{Text: s}} }
	reply := func(content ...schemas.Content) schemas.AnyMessage {
		m := &schemas.AssistantMessage{Provider: "acme", Model: "m2", Content: content, Usage: usage(50, 5),
			StopReason: schemas.StopToolUse}
		if len(m.Content.ToolCalls()) == 0 {
			m.StopReason = schemas.StopStop
		}
		return schemas.AnyMessage{Message: m}
	}
	w.writer("branch").append(
		&schemas.SessionBranched{Session: "agent", Seq: 7, Messages: schemas.Messages{
			&schemas.UserMessage{Content: text("list the files"), Timestamp: 1}}},
		&schemas.AgentStart{},
		&schemas.TurnStart{},
		&schemas.MessageStart{MessageID: "m4", Role: schemas.RoleAssistant, Provider: "acme", Model: "m2"},
		&schemas.MessageEnd{MessageID: "m4", Message: reply(schemas.Text{Text: "Looking."}, call)},
		&schemas.ToolExecutionStart{ToolCallID: "other", ToolName: "bash", Args: call.Arguments},
		&schemas.ToolExecutionEnd{ToolCallID: "other", ToolName: "bash", Call: "c6", IsError: true,
			Result: schemas.ErrorResult("not allowed")},
		&schemas.MessageStart{MessageID: "m8", Role: schemas.RoleToolResult, ToolCallID: "other", ToolName: "bash"},
		&schemas.MessageEnd{MessageID: "m8", Message: schemas.AnyMessage{Message: &schemas.ToolResultMessage{
			ToolCallID: "other", ToolName: "bash", IsError: true, Content: text("not allowed")}}},
		&schemas.TurnEnd{MessageID: "m4", ToolResults: []string{"m8"}},
		&schemas.TurnStart{TurnIndex: 1},
		&schemas.MessageStart{MessageID: "m12", Role: schemas.RoleAssistant, Provider: "acme", Model: "m2"},
		&schemas.MessageEnd{MessageID: "m12", Message: reply(schemas.Text{Text: "I may not look."})},
		&schemas.TurnEnd{MessageID: "m12", ToolResults: []string{}},
		&schemas.AgentEnd{Messages: []string{}, TerminationReason: schemas.EndNoToolCalls, Turns: 2, Usage: usage(100, 10)},
	)
}

// TestDiff holds what diff prints, its exit status, and that archives and stores are compared like sessions.
func TestDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	w.branchSession()
	got := w.replay("diff", "agent", "branch", "--lines", "3")
	if got.code != cli.StatusBad || got.stderr != "" {
		t.Errorf("%d, %s", got.code, got.stderr)
	}
	golden(t, "diff", got.stdout)
	got = w.replay("diff", "branch", "agent", "--json")
	golden(t, "diff-json", got.stdout)
	got = w.replay("diff", "agent", "agent")
	if got.code != cli.StatusOK {
		t.Errorf("%+v", got)
	}
	golden(t, "diff-same", got.stdout)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"diff", "agent"}, 2, "replay diff A B"},
		{[]string{"diff", "agent", "nobody"}, 1, "session nobody has no log"},
		{[]string{"diff", "agent", "./none.jsonl"}, 1, "./none.jsonl"},
		{[]string{"diff", "agent", "branch", "--archive", "x"}, 2, "diff takes archive files as arguments"},
	} {
		if got := w.replay(c.args...); got.code != c.code || !strings.Contains(got.stderr, c.says) {
			t.Errorf("%v: %+v, want %d and %q", c.args, got, c.code, c.says)
		}
	}
	want := w.replay("diff", "agent", "branch").stdout
	dir := t.TempDir()
	files := map[string]string{}
	for _, session := range []string{"agent", "branch"} {
		var b bytes.Buffer
		if _, err := archive.Write(w.ctx(), w.store, session, &b); err != nil {
			t.Fatal(err)
		}
		files[session] = filepath.Join(dir, session+".jsonl")
		if err := os.WriteFile(files[session], b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.replay("diff", "agent", files["branch"]); got.code != cli.StatusBad || got.stdout != want {
		t.Errorf("a session and an archive: %+v", got)
	}
	w.stop()
	if got := invoke(t, nil, "diff", files["agent"], files["branch"]); got.code != cli.StatusBad || got.stdout != want {
		t.Errorf("archives without a server: %+v", got)
	}
	got = invoke(t, nil, "diff", "agent", "branch", "--store", w.dir)
	if got.code != cli.StatusBad || got.stdout != want {
		t.Errorf("a store: %+v", got)
	}
}

// TestDiffOfARerun holds that a rerun in which the same model says the same is the same conversation.
func TestDiffOfARerun(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoModels())
	r.runner("r1")
	r.prompted("s1", "note it")
	for _, c := range []struct {
		session, model string
		code           int
	}{{"same", "m1", cli.StatusOK}, {"other", "m2", cli.StatusBad}} {
		if got := r.replay("rerun", "s1", "--at", "1", "--model", c.model, "--id", c.session); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		got := r.replay("diff", "s1", c.session, "--json")
		var report compare.Report
		if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || got.code != c.code {
			t.Fatalf("%v, %+v", err, got)
		}
		parts := report.Common == 1 && report.What == "its calls are others"
		if report.Same != (c.code == cli.StatusOK) || report.Same == parts {
			t.Errorf("%s: %+v", c.session, report)
		}
	}
}
