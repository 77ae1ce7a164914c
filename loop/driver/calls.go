package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// begunCall is a tool call that this process has begun and that has no result yet. Without a flag it was dispatched.
type begunCall struct {
	args      json.RawMessage // while it is queued
	waiting   bool            // for an approval; not dispatched
	queued    bool            // prepared, and not dispatched: the call window has no room yet ([loop.State.BeyondWindow])
	cancelled bool            // the worker was asked to stop
	span      Span
}

// mustBegin reports whether this process has yet to begin a call: it never has, or the approval that the call waited
// for is decided or no longer of use.
func (f *begunCall) mustBegin(call *loop.Call, aborted bool) bool {
	return f == nil || f.waiting && (aborted || !call.AwaitsApproval())
}

// unready reports whether the driver can do something for a call of the step now. The caller holds the lock.
func (d *Driver) unready(step loop.RunTools) bool {
	beyond := d.state.BeyondWindow(d.o.CallWindow)
	for _, i := range step.Calls {
		call := &d.state.Run.Turn.Calls[i]
		f := d.begun[call.Key]
		if f.mustBegin(call, step.Aborted) || f.queued && (step.Aborted || !beyond[i]) {
			return true
		}
	}
	return false
}

// forgetCalls forgets the calls that this process has begun, and ends their spans. The caller holds the lock.
func (d *Driver) forgetCalls(failure string) {
	for _, f := range d.begun {
		f.end(failure)
	}
	clear(d.begun)
	d.grace = nil
}

// runTools begins the calls of a step. Where all are begun and the driver may not rest, it waits for a result: a tool
// of this process has no other way to deliver one, and cancelled tools get their grace.
func (d *Driver) runTools(ctx context.Context, step loop.RunTools) error {
	d.mu.Lock()
	unready := d.unready(step)
	d.mu.Unlock()
	switch {
	case unready:
		if !step.Aborted {
			if err := d.room(); err != nil { // for the reply, which was not known when the model was called
				return err
			}
		}
		return d.beginCalls(ctx, step)
	case step.Aborted:
		return d.awaitCancelled(ctx, step)
	case d.local():
		return d.wait(ctx, nil)
	}
	return nil // a command has changed the state since the step was chosen
}

// beginCalls prepares all calls of a step before it dispatches any, so that a hook that blocks one is asked before
// another takes effect.
func (d *Driver) beginCalls(ctx context.Context, step loop.RunTools) error {
	for _, i := range step.Calls {
		if err := d.beginCall(ctx, i, step.Aborted); err != nil {
			return err
		}
	}
	if err := d.limitApprovals(ctx); err != nil {
		return err
	}
	if ready := d.dequeue(step); len(ready) > 0 {
		return d.dispatch(ctx, ready)
	}
	return nil
}

// beginCall prepares one call and queues it to be dispatched, unless it was dispatched before or is answered without
// being executed. Once the run is to end it dispatches no call that an earlier process may have dispatched: the driver
// only waits for its result.
func (d *Driver) beginCall(ctx context.Context, i int, aborted bool) error {
	call, refusal, ok := d.call(i)
	f := d.begun[call.Key]
	switch {
	case !ok:
		return nil
	case f.mustBegin(&call, aborted):
		delete(d.begun, call.Key)
	case f.queued && aborted && call.StartSeq > d.loaded:
		return d.refuse(ctx, call, loop.TextAborted)
	default:
		f.queued = f.queued && !aborted
		return nil
	}
	if aborted && call.Key != "" && refusal == "" {
		d.begun[call.Key] = new(begunCall)
		return nil
	}
	if call.Key == "" {
		start := &schemas.ToolExecutionStart{
			ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Args: rawArgs(call.ToolCall),
		}
		if !d.local() {
			start.Nonce = d.o.Nonce()
		}
		if err := d.emit(ctx, start, ""); err != nil {
			return err
		}
		begun, now, _ := d.call(i)
		call, refusal = begun, cmp.Or(refusal, now)
	}
	if refusal != "" {
		return d.refuse(ctx, call, refusal)
	}
	args, err := d.prepare(ctx, call)
	if err == nil {
		args, err = d.approve(ctx, i, args)
	}
	if err == nil {
		err = d.beginSubagent(ctx, call, args)
	}
	var refused refusalError
	switch {
	case errors.As(err, &refused):
		return d.refuse(ctx, call, string(refused))
	case errors.Is(err, errAwaitsApproval):
		return nil
	case err != nil:
		return err
	}
	d.begun[call.Key] = &begunCall{args: args, queued: true}
	return nil
}

// call returns a copy of a call of the turn, and the text to refuse it with, if any. ok is false if the call has ended.
func (d *Driver) call(i int) (c loop.Call, refusal string, ok bool) {
	d.View(func(s *loop.State) {
		if s.Run == nil || s.Run.Turn == nil || i >= len(s.Run.Turn.Calls) {
			return
		}
		c = s.Run.Turn.Calls[i]
		refusal, ok = s.Refusal(c), c.End == nil
	})
	return c, refusal, ok
}

// dequeue returns the requests of the queued calls that the call window has room for. A call beyond the window needs no
// event: the state alone says which calls wait, so every process that loads the session finds the same ones, and a
// result both wakes the session and makes room for the next call.
func (d *Driver) dequeue(step loop.RunTools) (ready []schemas.ToolRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	beyond := d.state.BeyondWindow(d.o.CallWindow)
	for _, i := range step.Calls {
		call := d.state.Run.Turn.Calls[i]
		if f := d.begun[call.Key]; call.End == nil && f != nil && f.queued && !beyond[i] {
			f.queued = false
			ready = append(ready, d.toolRequest(call, f.args))
			f.args = nil // a session at rest does not keep them
		}
	}
	return ready
}

// toolRequest returns the request that a worker gets for a call. The caller holds the lock.
func (d *Driver) toolRequest(call loop.Call, args json.RawMessage) schemas.ToolRequest {
	run := d.state.Run
	req := schemas.ToolRequest{
		Session: d.session, Call: call.Key, ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name,
		Arguments: args, StartSeq: call.StartSeq, Nonce: call.Nonce,
		RunID: run.ID, TurnID: run.Turn.ID, TraceParent: d.traceParent(),
	}
	if def := d.state.Definition(req.ToolName); def != nil {
		req.Effect, req.TimeoutMs = def.EffectClass(), def.TimeoutMs
		req.Version, req.Workspace, req.Revision = def.Version, def.Workspace, def.Revision
	}
	return req
}

// refuse answers a call with an error result, without executing it.
func (d *Driver) refuse(ctx context.Context, call loop.Call, text string) error {
	return d.emit(ctx, &schemas.ToolExecutionEnd{
		ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Call: call.Key,
		Result: schemas.ValidResult(schemas.ErrorResult(text)), IsError: true,
	}, "")
}

// dispatch dispatches calls, once everything before them is stored.
func (d *Driver) dispatch(ctx context.Context, ready []schemas.ToolRequest) error {
	if err := d.Flush(ctx); err != nil {
		return err
	}
	for _, req := range ready {
		if err := d.verifyOwnership(ctx); err != nil {
			return err
		}
		span := d.startToolSpan(ctx, req)
		req.TraceParent = span.TraceParent()
		d.begun[req.Call].span = span
		err := d.dispatchCall(ctx, req)
		if err == nil {
			continue
		}
		if !errors.Is(err, schemas.ErrSubject) && !errors.Is(err, schemas.ErrTooLarge) {
			// The call may have been dispatched: the next process that loads the session checks before it dispatches.
			return fmt.Errorf("dispatch call %s of session %s: %w", req.Call, d.session, err)
		}
		d.answer(req.Call, schemas.ErrorResult(fmt.Sprintf("Tool %s cannot be called: %v", req.ToolName, err)), true)
	}
	return nil
}

// dispatchCall dispatches a call to the workers of its tool, or to the session of the sub-agent that it has begun.
func (d *Driver) dispatchCall(ctx context.Context, req schemas.ToolRequest) error {
	if session, child := d.subagentOf(req.Call); session != "" {
		return d.promptSubagent(ctx, session, child, req)
	}
	return d.tools.Dispatch(ctx, req, req.StartSeq <= d.loaded)
}
