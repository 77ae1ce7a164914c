package driver

import (
	"context"
	"encoding/json"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// finish puts a call's result into the log, after the hook has seen it (behaviour A4.5).
func (d *Driver) finish(ctx context.Context, call loop.Call, a arrival) error {
	end := &schemas.ToolExecutionEnd{
		ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Call: call.Key, Result: a.result.Result,
		IsError: a.result.IsError, DurationMs: a.result.DurationMs, Worker: a.result.Worker,
	}
	f := d.flights[call.Key]
	if d.o.Hooks.AfterToolCall != nil {
		d.askAfter(ctx, call, f, end)
	}
	if err := d.askServicesAfter(ctx, call, d.argsOf(call, f), end); err != nil {
		return err
	}
	if f != nil {
		if f.span != nil {
			f.span.End(nil)
		}
		delete(d.flights, call.Key)
	}
	end.Result = schemas.ValidResult(end.Result)
	return d.emit(ctx, end, a.cause)
}

func (d *Driver) askAfter(ctx context.Context, call loop.Call, f *flight, end *schemas.ToolExecutionEnd) {
	signal := d.runSignal(ctx)
	show := AfterToolCall{BeforeToolCall: d.beforeView(call, d.argsOf(call, f)), Result: end.Result, IsError: end.IsError}
	var answer AfterToolCallResult
	err := guard("afterToolCall", func() (err error) {
		answer, err = d.o.Hooks.AfterToolCall(signal, show)
		return err
	})
	if err != nil {
		d.logPanic(err)
		end.Result, end.IsError = schemas.ErrorResult(err.Error()), true
		return
	}
	patch(end, answer)
}

// argsOf are the arguments a call was executed with; f is nil where another process has handed it over.
func (d *Driver) argsOf(call loop.Call, f *flight) (args json.RawMessage) {
	if f != nil && f.args != nil {
		return f.args
	}
	if prepared, err := d.arguments(call); err == nil {
		args, _, _ = decided(orAllowed(call.Decision), prepared)
	}
	return args
}

// patch replaces what the answer has, member by member, and names what that was (behaviour A4.5).
func patch(end *schemas.ToolExecutionEnd, a AfterToolCallResult) (changed []string) {
	if a.Content != nil {
		end.Result.Content, changed = *a.Content, append(changed, "content")
	}
	if len(a.Details) > 0 && string(a.Details) != "null" {
		end.Result.Details, changed = a.Details, append(changed, "details")
	}
	if a.IsError != nil {
		end.IsError, changed = *a.IsError, append(changed, "isError")
	}
	if a.Terminate != nil {
		end.Result.Terminate, changed = *a.Terminate, append(changed, "terminate")
	}
	return changed
}

func orAllowed(h *schemas.HookDecision) *schemas.HookDecision {
	if h == nil {
		return new(schemas.HookDecision)
	}
	return h
}
