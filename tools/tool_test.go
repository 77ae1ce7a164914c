package tools_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

func tool(execute func(ctx context.Context, call tools.Call) (schemas.ToolResult, error)) tools.Tool {
	return tools.Tool{ToolDefinition: schemas.ToolDefinition{Name: "t"}, Execute: execute}
}

func TestRunAlwaysHasAResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		execute func() (schemas.ToolResult, error)
		want    schemas.ToolResult
		isError bool
	}{
		{"a result passes", func() (schemas.ToolResult, error) { return schemas.TextResult("ok"), nil },
			schemas.TextResult("ok"), false},
		{"an error becomes its text", func() (schemas.ToolResult, error) { return schemas.TextResult("x"), errors.New("no") },
			schemas.ErrorResult("no"), true},
		{"a panic becomes an error", func() (schemas.ToolResult, error) { panic("boom") },
			schemas.ErrorResult("Tool t panicked: boom"), true},
		{"a bare cancellation gets the known text", func() (schemas.ToolResult, error) {
			return schemas.ToolResult{},
				context.Canceled
		},
			schemas.ErrorResult("Operation aborted"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, isError := tool(func(context.Context, tools.Call) (schemas.ToolResult, error) {
				return c.execute()
			}).Run(t.Context(), tools.Call{}, nil)
			if d := cmp.Diff(c.want, got); d != "" || isError != c.isError {
				t.Errorf("error %v, want %v (-want +got):\n%s", isError, c.isError, d)
			}
		})
	}
}

func TestRunDropsUpdatesAfterTheEnd(t *testing.T) {
	t.Parallel()
	var late func(schemas.ToolResult)
	var got []string
	tool(func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
		call.Update(schemas.TextResult("in time"))
		late = call.Update
		return schemas.ToolResult{}, nil
	}).Run(t.Context(), tools.Call{}, func(r schemas.ToolResult) { got = append(got, r.Content.JoinText()) })
	late(schemas.TextResult("late"))
	if d := cmp.Diff([]string{"in time"}, got); d != "" {
		t.Error(d)
	}
}

func TestInterruptedTellsTheCause(t *testing.T) {
	t.Parallel()
	if err := tools.Interrupted(t.Context()); err != nil {
		t.Errorf("a live context is interrupted: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tools.Interrupted(cancelled); !errors.Is(err, tools.ErrAborted) {
		t.Errorf("got %v", err)
	}
	limited, kill := context.WithCancelCause(t.Context())
	kill(fmt.Errorf("call c1: %w", &tools.TimeLimitError{Limit: 1500 * time.Millisecond}))
	if err := tools.Interrupted(limited); err == nil || err.Error() != "Tool timed out after 1.5 seconds" {
		t.Errorf("got %v", err)
	}
}
