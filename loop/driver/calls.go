package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// flight is a call that this process has begun.
type flight struct {
	args      json.RawMessage
	waiting   bool // for approval: it has not been dispatched
	queued    bool // beyond the call window ([loop.State.BeyondWindow]): it has not been dispatched
	cancelled bool
	span      Span
}

// unready reports whether a call of the step still has to be begun by this process. The caller holds the lock.
func (d *Driver) unready(step loop.RunTools) bool {
	beyond := d.state.BeyondWindow(d.o.CallWindow)
	for _, i := range step.Calls {
		call := &d.state.Run.Turn.Calls[i]
		f := d.flights[call.Key]
		if f == nil || f.waiting && (step.Aborted || !call.AwaitsApproval()) || f.queued && (step.Aborted || !beyond[i]) {
			return true
		}
	}
	return false
}

// mustWait reports whether the driver stays awake for results: they come from this process, or the run is to end and
// running tools have their grace. The caller holds the lock.
func (d *Driver) mustWait(step loop.RunTools) bool { return d.local() || step.Aborted }

// runTools begins the calls of a step: all are prepared before any is dispatched, so that a hook that blocks one is
// asked before another takes effect. Those beyond the call window wait.
func (d *Driver) runTools(ctx context.Context, step loop.RunTools) error {
	var ready []schemas.ToolRequest
	beyond := d.beyondWindow()
	for _, i := range step.Calls {
		req, err := d.beginCall(ctx, i, step.Aborted, beyond[i])
		if err != nil {
			return err
		}
		if req != nil {
			ready = append(ready, *req)
		}
	}
	if ready = d.withinWindow(ready); len(ready) > 0 {
		return d.dispatch(ctx, ready)
	}
	d.mu.Lock()
	next, still := loop.Next(d.state).(loop.RunTools)
	wait := still && !d.unready(next) && d.mustWait(next)
	d.mu.Unlock()
	if !wait {
		return nil // calls ended at once, or all there is to do is rest
	}
	if next.Aborted {
		return d.awaitCancelled(ctx, next)
	}
	return d.wait(ctx, nil)
}

// beginCall begins and prepares one call. It returns nil where the call is out already, or has been answered without
// being executed. A call that an earlier process began is not dispatched once the run is to end: the driver only waits
// for it.
func (d *Driver) beginCall(ctx context.Context, i int, aborted, beyond bool) (*schemas.ToolRequest, error) {
	call, refusal, ok := d.call(i)
	if !ok || call.Key != "" && d.out(call, aborted) {
		return nil, nil
	}
	if f := d.flights[call.Key]; f != nil && f.queued {
		return d.dequeue(ctx, call, f, aborted, beyond)
	}
	if aborted && call.Key != "" && refusal == "" {
		d.flights[call.Key] = new(flight)
		return nil, nil
	}
	if call.Key == "" {
		start := &schemas.ToolExecutionStart{
			ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Args: rawArgs(call.ToolCall),
		}
		if !d.local() {
			start.Nonce = d.o.Nonce()
		}
		if err := d.emit(ctx, start, ""); err != nil {
			return nil, err
		}
		begun, now, _ := d.call(i)
		call = begun
		if refusal == "" {
			refusal = now
		}
	}
	if refusal != "" {
		return nil, d.refuse(ctx, call, refusal)
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
		return nil, d.refuse(ctx, call, string(refused))
	case errors.Is(err, errWaits):
		return nil, nil
	case err != nil:
		return nil, err
	}
	d.flights[call.Key] = &flight{args: args}
	return d.toolRequest(call, args), nil
}

// out reports whether nothing is to be done for a call that has begun: it was dispatched, or still waits for approval.
func (d *Driver) out(call loop.Call, aborted bool) bool {
	f := d.flights[call.Key]
	if f == nil || f.queued {
		return false
	}
	if f.waiting && (aborted || !call.AwaitsApproval()) {
		delete(d.flights, call.Key)
		return false
	}
	return true
}

// call returns a copy of a call of the turn, and the text it is to be refused with.
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

func (d *Driver) toolRequest(call loop.Call, args json.RawMessage) *schemas.ToolRequest {
	req := &schemas.ToolRequest{
		Session: d.session, Call: call.Key, ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name,
		Arguments: args, StartSeq: call.StartSeq, Nonce: call.Nonce,
	}
	d.View(func(s *loop.State) {
		req.RunID, req.TurnID, req.TraceParent = s.Run.ID, s.Run.Turn.ID, d.traceParent()
		if def := s.Definition(req.ToolName); def != nil {
			req.Effect, req.TimeoutMs = def.EffectClass(), def.TimeoutMs
			req.Version, req.Workspace = def.Version, def.Workspace
		}
	})
	return req
}

func (d *Driver) refuse(ctx context.Context, call loop.Call, text string) error {
	return d.emit(ctx, &schemas.ToolExecutionEnd{
		ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Call: call.Key,
		Result: schemas.ValidResult(schemas.ErrorResult(text)), IsError: true,
	}, "")
}

// dispatch dispatches calls, once everything before is stored.
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
		d.flights[req.Call].span = span
		err := d.dispatchCall(ctx, req)
		if err == nil {
			continue
		}
		if !errors.Is(err, schemas.ErrSubject) && !errors.Is(err, schemas.ErrTooLarge) {
			// The call may be on its way: the next process that loads the session checks before it dispatches the call.
			return fmt.Errorf("dispatch call %s of session %s: %w", req.Call, d.session, err)
		}
		d.answer(req.Call, schemas.ErrorResult(fmt.Sprintf("Tool %s cannot be called: %v", req.ToolName, err)), true)
	}
	return nil
}

// dispatchCall dispatches one call: to the session that it has begun, or to the workers of its tool.
func (d *Driver) dispatchCall(ctx context.Context, req schemas.ToolRequest) error {
	if session, child := d.child(req.Call); session != "" {
		return d.promptSubagent(ctx, session, child, req)
	}
	return d.tools.Dispatch(ctx, req, req.StartSeq <= d.loaded)
}

// Calls that wait for the call window need no event: the state alone says which they are, so that every process that
// loads the session has the same wait. A result wakes the session and makes room for the next call.

func (d *Driver) beyondWindow() (beyond []bool) {
	d.View(func(s *loop.State) { beyond = s.BeyondWindow(d.o.CallWindow) })
	return beyond
}

// withinWindow returns the ready calls that the window has room for, and marks the others as queued.
func (d *Driver) withinWindow(ready []schemas.ToolRequest) []schemas.ToolRequest {
	beyond := map[schemas.CallKey]bool{}
	d.View(func(s *loop.State) {
		for i, is := range s.BeyondWindow(d.o.CallWindow) {
			beyond[s.Run.Turn.Calls[i].Key] = is
		}
	})
	room := ready[:0]
	for _, req := range ready {
		f := d.flights[req.Call]
		if f.queued = beyond[req.Call]; !f.queued {
			room = append(room, req)
		}
	}
	return room
}

// dequeue returns the request of a call that was queued, unless it still is beyond the window. Where the run is to end,
// the call is answered at once if no process has dispatched it; an earlier one may have, and then the driver waits for
// its result.
func (d *Driver) dequeue(ctx context.Context, call loop.Call, f *flight, aborted, beyond bool) (*schemas.ToolRequest,
	error) {
	switch {
	case !aborted && beyond:
		return nil, nil
	case !aborted:
		return d.toolRequest(call, f.args), nil
	case call.StartSeq > d.loaded:
		return nil, d.refuse(ctx, call, loop.TextAborted)
	}
	f.queued = false
	return nil, nil
}
