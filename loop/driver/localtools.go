package driver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Tool is a tool that this process executes.
//
// Execute gets the coerced and valid arguments; its context is done when the run is aborted, and what to do then is the
// tool's to decide. update reports a partial result; what is reported after Execute has returned is dropped. An error,
// or a panic, becomes an error result with its text. Execute is called concurrently, also for the same tool.
// PrepareArguments, if not nil, reshapes the raw arguments before they are validated.
type Tool struct {
	schemas.ToolDefinition
	PrepareArguments func(raw json.RawMessage) (json.RawMessage, error)
	Execute          func(ctx context.Context, callID string, args json.RawMessage, update func(schemas.ToolResult)) (schemas.ToolResult, error)
}

// toolset is the tools of a run.
type toolset []Tool

func (t toolset) find(name string) *Tool {
	for i := range t {
		if t[i].Name == name {
			return &t[i]
		}
	}
	return nil
}

func (t toolset) definitions() []schemas.ToolDefinition {
	var defs []schemas.ToolDefinition
	for _, tool := range t {
		defs = append(defs, tool.ToolDefinition)
	}
	return defs
}

// prepare is [Options.PrepareArguments] of the tools.
func (t toolset) prepare(name string, raw []byte) ([]byte, error) {
	if tool := t.find(name); tool != nil && tool.PrepareArguments != nil {
		return tool.PrepareArguments(raw)
	}
	return raw, nil
}

// localTools executes calls in goroutines of this process and answers to its driver.
type localTools struct {
	driver *Driver
	tools  func() toolset
}

// Dispatch starts the call. Nothing of this process outlives it, so again makes no difference.
func (l *localTools) Dispatch(ctx context.Context, req schemas.ToolRequest, _ bool) error {
	tool := l.tools().find(req.ToolName)
	signal := l.driver.runSignal(ctx)
	update := func(partial schemas.ToolResult) {
		l.driver.arrive(arrival{call: req.Call, partial: &partial})
	}
	go func() {
		response := &schemas.ToolResponse{Call: req.Call, ToolCallID: req.ToolCallID, ToolName: req.ToolName}
		err := guard("tool "+req.ToolName, func() (err error) {
			response.Result, err = tool.Execute(signal, req.ToolCallID, req.Arguments, update)
			return err
		})
		if err != nil {
			l.driver.logPanic(err)
			response.Result, response.IsError = schemas.ErrorResult(err.Error()), true
		}
		l.driver.arrive(arrival{call: req.Call, result: response})
	}()
	return nil
}

// Cancel does nothing: the run's signal has told the tool already.
func (l *localTools) Cancel(context.Context, string, schemas.CallKey) error { return nil }

// noLog keeps nothing: the state is all an in-memory agent needs.
type noLog struct{}

func (noLog) Append(context.Context, schemas.Event) error { return nil }
func (noLog) Flush(context.Context) error                 { return nil }
func (noLog) Confirm(context.Context, time.Time) error    { return nil }
