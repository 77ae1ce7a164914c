package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// toolset is the tools of a run.
type toolset []tools.Tool

func (t toolset) definitions() []schemas.ToolDefinition {
	var defs []schemas.ToolDefinition
	for _, tool := range t {
		defs = append(defs, tool.ToolDefinition)
	}
	return defs
}

// execute is [driver.Options].Execute of the tools: what a worker does with a request, in this process.
func (t toolset) execute(ctx context.Context, log *slog.Logger, req schemas.ToolRequest,
	update func(schemas.ToolResult)) (result schemas.ToolResult, isError bool) {
	i := slices.IndexFunc(t, func(tool tools.Tool) bool { return tool.Name == req.ToolName })
	ctx, cancel := tools.WithLimit(ctx, req) // i is not -1: the driver calls no tool that it was not given
	defer cancel()
	result, err := t[i].Try(ctx, tools.CallOf(req), update)
	var panicked *tools.PanicError
	if errors.As(err, &panicked) {
		log.Error("tool panicked", "tool", req.ToolName, "call", req.Call, "stack", string(panicked.Stack))
	}
	return tools.ResultOf(result, err)
}

// noLog stores nothing: the state is all an in-memory agent needs.
type noLog struct{}

func (noLog) Append(context.Context, schemas.Event) error { return nil }
func (noLog) Send()                                       {}
func (noLog) Flush(context.Context) error                 { return nil }
func (noLog) Confirm(context.Context, time.Time) error    { return nil }
