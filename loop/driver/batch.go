package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// flight is a call this process has taken up.
type flight struct {
	args      json.RawMessage
	waiting   bool // for approval: it has not been handed over
	held      bool // until there is room among the tool's calls ([loop.Held]): it has not been handed over
	cancelled bool
	span      Span
}

// unready reports whether a call of the step still has to be taken up by this process. The caller holds the lock.
func (d *Driver) unready(step loop.RunTools) bool {
	held := loop.Held(d.state, d.o.CallsInQueue)
	for _, i := range step.Calls {
		call := &d.state.Run.Turn.Calls[i]
		f := d.flights[call.Key]
		if f == nil || f.waiting && (step.Aborted || !call.AwaitsApproval()) || f.held && (step.Aborted || !held[i]) {
			return true
		}
	}
	return false
}

// mustWait reports whether the driver stays awake for results: they come from this process, or the run is to end and
// running tools have their grace. The caller holds the lock.
func (d *Driver) mustWait(step loop.RunTools) bool { return d.o.LocalTools || step.Aborted }

// runTools takes up the calls of a step: all are prepared before any is dispatched (behaviour A4.7). Those for which there
// is no room yet are held back.
func (d *Driver) runTools(ctx context.Context, step loop.RunTools) error {
	var ready []schemas.ToolRequest
	held := d.held()
	for _, i := range step.Calls {
		if !step.Aborted && held[i] && d.isHeld(i) {
			continue
		}
		req, err := d.takeUp(ctx, i, step.Aborted)
		if err != nil {
			return err
		}
		if req != nil {
			ready = append(ready, *req)
		}
	}
	if ready = d.hold(ready); len(ready) > 0 {
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
	select {
	case <-d.arrived:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeUp begins and prepares one call. It returns nil where the call is out already, or has been answered without being
// executed. A call that an earlier process began is not handed over once the run is to end: it is only waited for.
func (d *Driver) takeUp(ctx context.Context, i int, aborted bool) (*schemas.ToolRequest, error) {
	call, refusal, ok := d.call(i)
	if !ok || call.Key != "" && d.out(call, aborted) {
		return nil, nil
	}
	if f := d.flights[call.Key]; f != nil && f.held {
		return d.release(ctx, call, f, aborted)
	}
	if aborted && call.Key != "" && refusal == "" {
		d.flights[call.Key] = new(flight)
		return nil, nil
	}
	if call.Key == "" {
		start := &schemas.ToolExecutionStart{
			ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Args: rawArgs(call.ToolCall),
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
	args, refusal, err := d.prepare(ctx, call)
	if err != nil {
		return nil, err
	}
	waits := false
	if refusal == "" {
		waits, refusal, err = d.approve(ctx, i, args)
	}
	switch {
	case waits || err != nil:
		return nil, err
	case refusal != "":
		return nil, d.refuse(ctx, call, refusal)
	}
	d.flights[call.Key] = &flight{args: args}
	return d.toolRequest(call, args), nil
}

// out reports whether nothing is to be done for a call that has begun: it was handed over, or still waits for approval.
func (d *Driver) out(call loop.Call, aborted bool) bool {
	f := d.flights[call.Key]
	if f == nil || f.held {
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
		refusal, ok = loop.Refusal(s, c), c.End == nil
	})
	return c, refusal, ok
}

func (d *Driver) toolRequest(call loop.Call, args json.RawMessage) *schemas.ToolRequest {
	req := &schemas.ToolRequest{
		Session: d.session, Call: call.Key, ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name,
		Arguments: args, StartSeq: call.StartSeq,
	}
	d.View(func(s *loop.State) {
		req.RunID, req.TurnID, req.TraceParent = s.Run.ID, s.Run.Turn.ID, d.traceParent()
		if def := loop.Definition(s, req.ToolName); def != nil {
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

// dispatch hands calls over, once everything before is stored.
func (d *Driver) dispatch(ctx context.Context, ready []schemas.ToolRequest) error {
	if err := d.o.Log.Flush(ctx); err != nil {
		return &LostError{Session: d.session, Seq: ready[0].StartSeq, Err: err}
	}
	for _, req := range ready {
		if err := d.ensureOurs(ctx); err != nil {
			return err
		}
		span := d.o.Tracer.Start(ctx, "tool call", req.TraceParent, map[string]string{"tool": req.ToolName})
		req.TraceParent = span.TraceParent()
		d.flights[req.Call].span = span
		err := d.o.Tools.Dispatch(ctx, req, req.StartSeq <= d.loaded)
		if err == nil {
			continue
		}
		if !errors.Is(err, schemas.ErrSubject) {
			// The call may be on its way. Whoever takes the session up again looks before it hands the call over.
			return fmt.Errorf("dispatch call %s of session %s: %w", req.Call, d.session, err)
		}
		d.arrive(arrival{call: req.Call, result: &schemas.ToolResponse{
			Call: req.Call, ToolCallID: req.ToolCallID, ToolName: req.ToolName, IsError: true,
			Result: schemas.ErrorResult(fmt.Sprintf("Tool %s cannot be called: %v", req.ToolName, err)),
		}})
	}
	return nil
}

// awaitCancelled tells running tools to stop, once, and waits for their results; what has not answered after the grace is answered for.
func (d *Driver) awaitCancelled(ctx context.Context, step loop.RunTools) error {
	for _, i := range step.Calls {
		call, _, ok := d.call(i)
		if f := d.flights[call.Key]; ok && f != nil && !f.cancelled {
			f.cancelled = true
			if err := d.o.Tools.Cancel(ctx, d.session, call.Key); err != nil {
				d.o.Logger.Warn("tool call not cancelled", "session", d.session, "call", call.Key, "err", err)
			}
		}
	}
	if d.grace == nil && d.o.AbortGrace > 0 {
		over := make(chan struct{})
		d.grace = over
		d.o.Clock.AfterFunc(d.o.AbortGrace, func() { close(over) })
	}
	select {
	case <-d.arrived:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.grace:
	}
	for _, i := range step.Calls {
		if call, _, ok := d.call(i); ok {
			d.withdraw(ctx, call.Key)
			if err := d.refuse(ctx, call, loop.TextAborted); err != nil {
				return err
			}
		}
	}
	return nil
}

// withdraw takes back a call that is about to be answered for. A worker that comes only now has never heard that the call was
// cancelled. A call that cannot be taken back does not keep the run from its end.
func (d *Driver) withdraw(ctx context.Context, call schemas.CallKey) {
	tools, ok := d.o.Tools.(Withdrawer)
	if !ok {
		return
	}
	if err := tools.Withdraw(ctx, d.session, call); err != nil {
		d.o.Logger.Warn("tool call not withdrawn", "session", d.session, "call", call, "err", err)
	}
}
