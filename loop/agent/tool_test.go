package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loopbus/loopbus/loop/agent"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// callOnce is a model that calls the tool once, with these arguments.
func callOnce(tool, args string) *scripted.Model {
	return scripted.New(scripted.Calls("", schemas.ToolCall{ID: "t1", Name: tool, Arguments: json.RawMessage(args)}),
		scripted.Text("done"))
}

// runTool has an agent call the tool once, and returns the events of the call.
func runTool(t *testing.T, tool tools.Tool, args string, change ...func(*agent.Options)) (events []agentevent.Event) {
	t.Helper()
	change = append(change, func(o *agent.Options) { o.Tools = []tools.Tool{tool} })
	a := newAgent(t, callOnce(tool.Name, args), change...)
	a.Subscribe(func(_ context.Context, e agentevent.Event) error {
		if e.ToolCallID != "" {
			events = append(events, e)
		}
		return nil
	})
	if _, err := a.Prompt(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	return events
}

// TestATypedToolRunsInMemory gives an agent the tool that a worker would serve: its schema, defaults, call and partial
// results are the same as in a worker.
func TestATypedToolRunsInMemory(t *testing.T) {
	t.Parallel()
	type params struct {
		City string `json:"city"`
		Days int    `json:"days,omitempty" jsonschema:"default=3"`
	}
	var got params
	var call tools.Call
	tool := tools.Must(tools.Typed(schemas.ToolDefinition{Name: "forecast"},
		func(_ context.Context, c tools.Call, p params) (schemas.ToolResult, error) {
			got, call = p, c
			c.Update(schemas.TextResult("looking"))
			return schemas.TextResult("rain"), nil
		}))
	events := runTool(t, tool, `{"city":"Oslo"}`)
	if d := cmp.Diff(params{"Oslo", 3}, got); d != "" {
		t.Errorf("parameters (-want +got):\n%s", d)
	}
	want := tools.Call{Session: "agent", RunID: call.RunID, TurnID: call.TurnID, Key: call.Key, ID: "t1",
		Arguments: call.Arguments, IdempotencyKey: "agent/" + string(call.Key)}
	if d := cmp.Diff(want, call, cmpopts.IgnoreUnexported(tools.Call{})); d != "" || call.RunID == "" || call.Key == "" {
		t.Errorf("call (-want +got):\n%s", d)
	}
	var shown []string
	for _, e := range events {
		switch {
		case e.PartialResult != nil:
			shown = append(shown, "partial "+e.PartialResult.Content.JoinText())
		case e.Result != nil:
			shown = append(shown, "result "+e.Result.Content.JoinText())
		}
	}
	if d := cmp.Diff([]string{"partial looking", "result rain"}, shown); d != "" {
		t.Errorf("shown (-want +got):\n%s", d)
	}
}

// TestAToolFailsInMemoryAsItDoesInAWorker tests the texts that a model gets.
func TestAToolFailsInMemoryAsItDoesInAWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		execute   func(ctx context.Context, call tools.Call) (schemas.ToolResult, error)
		timeoutMs int64
		want      string
	}{
		"error": {execute: func(context.Context, tools.Call) (r schemas.ToolResult, err error) {
			return r, errors.New("no line")
		}, want: "no line"},
		"panic": {execute: func(context.Context, tools.Call) (schemas.ToolResult, error) { panic("no luck") },
			want: "Tool t panicked: no luck"},
		"time limit": {execute: func(ctx context.Context, _ tools.Call) (r schemas.ToolResult, err error) {
			<-ctx.Done()
			return r, tools.Interrupted(ctx)
		}, timeoutMs: 10, want: "Tool timed out after 0.01 seconds"},
		"end of a context": {execute: func(context.Context, tools.Call) (r schemas.ToolResult, err error) {
			return r, context.Canceled
		}, want: "Operation aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := tools.Tool{Execute: c.execute}
			tool.Name, tool.TimeoutMs = "t", c.timeoutMs
			var log strings.Builder
			events := runTool(t, tool, `{}`, func(o *agent.Options) {
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			end := events[len(events)-1]
			if !end.IsError || end.Result.Content.JoinText() != c.want {
				t.Errorf("got %+v, want the error %q", end.Result, c.want)
			}
			if logged := strings.Contains(log.String(), "tool panicked"); logged != (name == "panic") {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}
