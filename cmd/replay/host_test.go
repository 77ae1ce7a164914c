package main

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// answering is a tool side that answers every call as soon as it can.
type answering struct{ calls chan schemas.ToolRequest }

func (a answering) Dispatch(_ context.Context, req schemas.ToolRequest, _ bool) error {
	a.calls <- req
	return nil
}
func (answering) Cancel(context.Context, string, schemas.CallKey, string) error { return nil }
func (answering) Definitions(context.Context) ([]schemas.ToolDefinition, error) {
	return []schemas.ToolDefinition{{Name: "ls", Parameters: json.RawMessage("{ \"type\": \"object\" }")}}, nil
}

func TestVerifyOfWhatAHostHasSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tools := answering{make(chan schemas.ToolRequest, 1)}
	model := &replies{
		{Content: schemas.Contents{schemas.ToolCall{ID: "call_1", Name: "ls",
			Arguments: json.RawMessage("{ \"path\" : \"<a>\" }")}},
			Usage: usage(1, 2), StopReason: schemas.StopToolUse},
		{Content: schemas.Contents{schemas.Text{Text: "<done> \u2028"}}, Usage: usage(3, 4), StopReason: schemas.StopStop},
	}
	sessions := host.New(host.Options{
		Open: func(ctx context.Context, session string) (host.SessionLog, error) {
			return w.store.Open(ctx, session)
		},
		Deps:    driver.Deps{Model: model, Tools: tools, Source: "/loopbus/runner/r1"},
		Toolbox: tools, SnapshotEvery: 1,
		Defaults: schemas.RunConfig{Model: schemas.ModelRef{ID: "m1"}},
	})
	deliver := func(id string, data schemas.CommandData) {
		t.Helper()
		if err := sessions.Deliver(w.ctx(), schemas.Command{ID: id, Session: "hosted", Data: data}, nil); err != nil {
			t.Fatal(err)
		}
	}
	deliver("c1", &schemas.Prompt{Input: schemas.Input{Text: "go <there>"}})
	expect(t, w.replay("verify"), cli.StatusOK, "hosted: ok, 9 events, snapshot at 9, hash ", "")
	expect(t, w.replay("list"), cli.StatusOK, "waiting for tools", "")
	call := <-tools.calls
	deliver("c2", &schemas.ToolResponse{Call: call.Call, ToolCallID: call.ToolCallID, ToolName: call.ToolName,
		Result: schemas.ToolResult{Details: json.RawMessage("[ 1, 2 ]")}, DurationMs: 42, Worker: "w1",
		Nonce: call.Nonce})
	deliver("c3", &schemas.Steer{Input: schemas.Input{Text: ""}})
	got := w.replay("verify")
	expect(t, got, cli.StatusOK, "1 session, 0 bad", "")
	expect(t, w.replay("export", "hosted"), cli.StatusOK, `"id":"hosted/1"`, "")
	reimport(t, w.replay("export", "hosted").stdout, false)
}
