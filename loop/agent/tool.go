package agent

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/loopbus/loopbus/loop/driver"
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

// execute is the agent's [driver.Options].Execute: it does in this process what a worker does with a request.
func (t toolset) execute(ctx context.Context, log *slog.Logger, req schemas.ToolRequest,
	update func(schemas.ToolResult)) (result schemas.ToolResult, isError bool) {
	i := slices.IndexFunc(t, func(tool tools.Tool) bool { return tool.Name == req.ToolName })
	ctx, cancel := tools.WithLimit(ctx, req) // i is not -1: the driver only calls the tools that it was given
	defer cancel()
	result, err := t[i].Try(ctx, tools.CallOf(req), update)
	var panicked *tools.PanicError
	if errors.As(err, &panicked) {
		log.Error("tool panicked", "tool", req.ToolName, "call", req.Call, "stack", string(panicked.Stack))
	}
	return tools.ResultOf(result, err)
}

// addressed is a model whose requests are completed by the program's own session id and key.
type addressed struct {
	driver.Model
	complete func(req *schemas.ModelRequest)
}

// Stream returns the model's stream for the completed request.
func (m addressed) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	m.complete(&req)
	return m.Model.Stream(ctx, req)
}

// noLog stores nothing: an in-memory agent needs only its state.
type noLog struct{}

func (noLog) Append(context.Context, schemas.Event) error { return nil }
func (noLog) Send()                                       {}
func (noLog) Flush(context.Context) error                 { return nil }
func (noLog) Confirm(context.Context, time.Time) error    { return nil }
func (noLog) Read(context.Context, uint64) iter.Seq2[schemas.Event, error] {
	return func(func(schemas.Event, error) bool) {}
}
