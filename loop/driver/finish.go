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
	var args json.RawMessage
	if f != nil {
		args = f.args
	} else if prepared, err := d.arguments(call); err == nil {
		args, _, _ = decided(orAllowed(call.Decision), prepared)
	}
	signal := d.runSignal(ctx)
	show := AfterToolCall{BeforeToolCall: d.beforeView(call, args), Result: end.Result, IsError: end.IsError}
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
	if answer.Content != nil {
		end.Result.Content = *answer.Content
	}
	if len(answer.Details) > 0 && string(answer.Details) != "null" {
		end.Result.Details = answer.Details
	}
	if answer.IsError != nil {
		end.IsError = *answer.IsError
	}
	if answer.Terminate != nil {
		end.Result.Terminate = *answer.Terminate
	}
}

func orAllowed(h *schemas.HookDecision) *schemas.HookDecision {
	if h == nil {
		return new(schemas.HookDecision)
	}
	return h
}
