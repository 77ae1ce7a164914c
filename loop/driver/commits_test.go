package driver_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// What is decided together is stored together, and no decision waits to be sent while the driver waits. A tool turn is
// the three commits from the second message_start on.
func TestATurnIsThreeCommits(t *testing.T) {
	t.Parallel()
	store, tools := eventstore.NewMemory(), looptest.NewQueue()
	var got [][]schemas.EventType
	store.OnCommit = func(events []schemas.Event, stored bool) error {
		if !stored {
			return nil
		}
		var types []schemas.EventType
		for _, e := range events {
			types = append(types, e.Type())
		}
		got = append(got, types)
		return nil
	}
	log, err := store.Open(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	d := driver.New(driver.Options{
		Deps: driver.Deps{Model: looptest.ToolThenDone("t1"), Tools: tools, Source: "/loopbus/runner/test"},
		Log:  log,
		Configure: func(context.Context, string, loop.Settings) (schemas.RunConfig, error) {
			return schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}, Tools: []schemas.ToolDefinition{{Name: "echo"}}}, nil
		},
	}, &loop.State{Session: "s1"})
	handle := func(id string, data schemas.CommandData) {
		t.Helper()
		if err := d.Handle(t.Context(), looptest.Command(id, data), nil); err != nil {
			t.Fatal(err)
		}
	}
	handle("p1", looptest.Prompt("go"))
	id, result := looptest.AnswerTo(tools.Take(t), "ok")
	handle(id, result)
	want := [][]schemas.EventType{
		{schemas.EventCommandAccepted},
		{schemas.EventAgentStart},
		{schemas.EventTurnStart, schemas.EventMessageStart, schemas.EventMessageEnd, schemas.EventCommandApplied},
		{schemas.EventMessageStart},
		{schemas.EventMessageEnd, schemas.EventToolExecutionStart},
		{schemas.EventToolExecutionEnd, schemas.EventMessageStart, schemas.EventMessageEnd, schemas.EventTurnEnd,
			schemas.EventTurnStart},
		{schemas.EventMessageStart},
		{schemas.EventMessageEnd, schemas.EventTurnEnd, schemas.EventAgentEnd},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("commits (-want +got):\n%s", d)
	}
}

// Whatever the driver waits for, the log has stored what was decided before.
func TestNothingWaitsWhileTheDriverWaits(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	seen := map[string]schemas.EventType{}
	look := func(what string) {
		if _, ok := seen[what]; ok {
			return
		}
		types := r.Types()
		seen[what] = schemas.EventType(types[len(types)-1])
	}
	model := looptest.ModelFunc(func(ctx context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		look("the model says")
		return looptest.ToolThenDone("t1")(ctx, req)
	})
	r.Host = r.NewHost(model, func(o *host.Options) {
		o.Pipeline = func(schemas.ToolPolicy, []schemas.ToolDefinition) ([]schemas.ToolDefinition, []schemas.ToolLayer) {
			look("configure")
			return []schemas.ToolDefinition{{Name: "echo"}}, nil
		}
		o.Hooks.TransformContext = func(_ context.Context, m schemas.Messages) (schemas.Messages, error) {
			look("transformContext")
			return m, nil
		}
		o.Hooks.BeforeToolCall = func(context.Context, driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			look("beforeToolCall")
			return driver.BeforeToolCallResult{}, nil
		}
		o.Hooks.AfterToolCall = func(context.Context, driver.AfterToolCall) (driver.AfterToolCallResult, error) {
			look("afterToolCall")
			return driver.AfterToolCallResult{}, nil
		}
	})
	r.Deliver("p1", looptest.Prompt("go"))
	look("at rest")
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
	r.Deliver(id, result)
	want := map[string]schemas.EventType{
		"configure": schemas.EventCommandAccepted, "transformContext": schemas.EventCommandApplied,
		"the model says": schemas.EventMessageStart,
		"beforeToolCall": schemas.EventToolExecutionStart, "at rest": schemas.EventHookDecision,
		"afterToolCall": schemas.EventHookDecision,
	}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("the log ended with (-want +got):\n%s", d)
	}
}
