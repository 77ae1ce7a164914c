package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/loop/internal/jsonroom"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// finish puts a call's result into the log, after the hook after_tool_call.
func (d *Driver) finish(ctx context.Context, call loop.Call, a arrival) error {
	end := &schemas.ToolExecutionEnd{
		ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Call: call.Key, Result: a.result.Result,
		IsError: a.result.IsError, DurationMs: a.result.DurationMs, Worker: a.result.Worker,
	}
	f := d.begun[call.Key]
	if err := d.askAfter(ctx, call, f, end); err != nil {
		return err
	}
	end.Result = schemas.ValidResult(end.Result)
	d.View(func(s *loop.State) {
		if why := s.TooLarge(end.Result); why != "" {
			end.Result, end.IsError = schemas.ErrorResult(why), true
		}
	})
	failure := ""
	if end.IsError {
		failure = spanError
	}
	f.end(failure)
	delete(d.begun, call.Key)
	if err := d.emit(ctx, end, a.cause); err != nil || a.subagent == nil {
		return err
	}
	return d.emit(ctx, loop.SubagentEnded(a.subagent), a.cause)
}

// argsOf returns the arguments a call was executed with; f is nil if another process has dispatched the call.
func (d *Driver) argsOf(ctx context.Context, call loop.Call, f *begunCall) (args json.RawMessage) {
	if f != nil && f.args != nil {
		return f.args
	}
	if prepared, err := d.arguments(ctx, call); err == nil {
		args, _ = decidedArgs(call.Decision, prepared)
	}
	return call.Agreed(args)
}

// patch replaces the members of a result that an answer has, without merging them, and returns their names.
func patch(end *schemas.ToolExecutionEnd, a schemas.HookAnswer) (changed []string) {
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

// awaitCancelled cancels the calls of an aborted run, once, and waits for a result or the end of the grace. After the
// grace it answers the calls that have no result.
func (d *Driver) awaitCancelled(ctx context.Context, step loop.RunTools) error {
	for _, i := range step.Calls {
		call, _, ok := d.call(i)
		if f := d.begun[call.Key]; ok && f != nil && !f.cancelled {
			if f.cancelled = true; call.Subagent != "" {
				continue // the state owes it an abort, which is a step of its own
			}
			err := d.outside("cancel", func() error { return d.tools.Cancel(ctx, d.session, call.Key, call.Nonce) })
			if err != nil {
				d.o.Logger.Warn("tool call not cancelled", "session", d.session, "call", call.Key, "err", err)
			}
		}
	}
	if d.grace == nil && d.o.AbortGrace > 0 {
		over := make(chan struct{})
		end := sync.OnceFunc(func() { close(over) })
		d.grace = over
		d.o.Clock.AfterFunc(d.o.AbortGrace, end)
		if d.o.Hurry != nil {
			d.o.Hurry(end)
		}
	}
	if err := d.wait(ctx, d.grace); err != nil {
		return err
	}
	select {
	case <-d.grace:
	default:
		return nil
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

// withdraw removes a call that is about to be answered for it: a worker that begins it only now does not know that the
// call was cancelled. If that fails, the run ends all the same.
func (d *Driver) withdraw(ctx context.Context, call schemas.CallKey) {
	tools, ok := d.tools.(Withdrawer)
	if !ok {
		return
	}
	if err := d.outside("withdraw", func() error { return tools.Withdraw(ctx, d.session, call) }); err != nil {
		d.o.Logger.Warn("tool call not withdrawn", "session", d.session, "call", call, "err", err)
	}
}

// arrival is a tool's result or partial result on its way to the goroutine that drives.
type arrival struct {
	cause   string
	result  *schemas.ToolResponse
	partial *schemas.ToolResult
	call    schemas.CallKey
	done    chan struct{} // closed when the result is in the log or was discarded; nil if no delivery waits

	subagent *schemas.SubagentResult // for the result of a sub-agent, of which result is made
}

func (a arrival) finish() {
	if a.done != nil {
		close(a.done)
	}
}

// recordArrivals puts what has arrived into the log, in the order of its arrival.
func (d *Driver) recordArrivals(ctx context.Context) error {
	for {
		d.mu.Lock()
		if len(d.arrivals) == 0 {
			d.mu.Unlock()
			return nil
		}
		a := d.arrivals[0]
		d.arrivals[0] = arrival{} // its result may be large
		d.arrivals = d.arrivals[1:]
		var call *loop.Call
		if c := d.state.Call(a.call); c != nil && c.End == nil {
			copied := *c
			call = &copied
		}
		d.mu.Unlock()
		var err error
		switch {
		case call == nil && a.subagent != nil:
			err = d.endSubagent(ctx, a)
		case call == nil: // the call has ended
		case a.result != nil:
			err = d.finish(ctx, *call, a)
		default:
			err = d.showPartial(ctx, *call, a.partial)
		}
		d.mu.Lock()
		if err != nil { // whoever drives next records it, or its delivery fails with the session
			d.arrivals = slices.Insert(d.arrivals, 0, a)
			d.mu.Unlock()
			return err
		}
		d.recorded = append(d.recorded, a)
		d.mu.Unlock()
	}
}

func (d *Driver) showPartial(ctx context.Context, c loop.Call, partial *schemas.ToolResult) error {
	return d.show(ctx, shown{visible: true, event: agentevent.Event{
		Type: schemas.EventToolExecutionUpdate, ToolCallID: c.ToolCall.ID, ToolName: c.ToolCall.Name,
		Args: rawArgs(c.ToolCall), PartialResult: partial,
	}})
}

func rawArgs(c schemas.ToolCall) json.RawMessage {
	if len(c.Arguments) == 0 {
		return json.RawMessage("{}")
	}
	return c.Arguments
}

// localTools executes calls with [Options.Execute], in goroutines of the driver.
type localTools struct{ d *Driver }

// Dispatch starts the call. No call survives the process that began it, so again makes no difference.
func (l localTools) Dispatch(ctx context.Context, req schemas.ToolRequest, _ bool) error {
	signal := l.d.runSignal(ctx)
	update := func(partial schemas.ToolResult) { l.d.arrive(arrival{call: req.Call, partial: &partial}) }
	l.d.start("tool "+req.ToolName, func() {
		var result schemas.ToolResult
		var isError bool
		err := panics.Guard("tool "+req.ToolName, func() error {
			result, isError = l.d.o.Execute(signal, req, update)
			return nil
		})
		if err != nil {
			l.d.logPanic(err)
			result, isError = schemas.ErrorResult(err.Error()), true
		}
		l.d.answer(req.Call, result, isError)
	})
	return nil
}

// Cancel does nothing: the run's abort signal has already cancelled the tool.
func (localTools) Cancel(context.Context, string, schemas.CallKey, string) error { return nil }

// askAfter asks the services of after_tool_call, which may replace parts of the result in end. Its error wraps
// [schemas.ErrLater] if so many large results and replies wait for services that this one has to be delivered again.
func (d *Driver) askAfter(ctx context.Context, call loop.Call, f *begunCall, end *schemas.ToolExecutionEnd) error {
	q := d.inquiryOfRun(schemas.HookAfterToolCall)
	if q == nil {
		return nil
	}
	result := &schemas.ToolResultMessage{Content: end.Result.Content, Details: end.Result.Details}
	asked, err := d.waitIn(ctx, d.runSignal(ctx), jsonroom.Asked, schemas.Messages{result}.JSONSize())
	switch {
	case errors.Is(err, jsonroom.ErrFull):
		return fmt.Errorf("the result of call %s of session %s: %w: %w", call.Key, d.session, err, schemas.ErrLater)
	case err != nil && !errors.Is(err, errDropped): // of an aborted run services are not waited for
		return err
	}
	defer asked()
	decision := &schemas.HookDecision{ToolCallID: call.ToolCall.ID, Call: call.Key}
	req := callRequest(call, d.argsOf(ctx, call, f))
	req.Result, req.IsError = &end.Result, end.IsError
	return q.decide(ctx, d.runSignal(ctx), req, decision, func(a schemas.HookAnswer) (bool, error) {
		changed := patch(end, a)
		decision.Changed = append(decision.Changed, changed...)
		req.IsError = end.IsError
		return len(changed) > 0, nil
	})
}

// maxHeld is how many calls are looked for at once.
const maxHeld = 64

// AnswerLost queues answers for the calls of a session at rest that no worker has and whose results are not on their
// way: their outcome is unknown. The next delivery puts the answers into the log. It does nothing while the session is
// awake, or if its tools are no [Holder]. A result that comes after all changes nothing.
func (d *Driver) AnswerLost(ctx context.Context) error {
	holder, ok := d.tools.(Holder)
	if !ok {
		return nil
	}
	requests := d.inFlight()
	held, errs := make([]bool, len(requests)), make([]error, len(requests))
	var asked sync.WaitGroup // at once, because other commands wait, and each answer may take seconds
	places := make(chan struct{}, maxHeld)
	for i, req := range requests {
		places <- struct{}{}
		asked.Go(func() {
			held[i], errs[i] = holder.Holds(ctx, req)
			<-places
		})
	}
	asked.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, req := range requests {
		if !held[i] {
			d.o.Logger.Warn("tool call lost", "session", d.session, "call", req.Call, "tool", req.ToolName)
			d.answer(req.Call, schemas.ErrorResult(schemas.TextOutcomeUnknown), true)
		}
	}
	return nil
}

// inFlight returns the requests of the calls that a session at rest may have dispatched and that have no result.
func (d *Driver) inFlight() (requests []schemas.ToolRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	step, ok := loop.Next(d.state).(loop.RunTools)
	if !ok || step.Aborted || d.driving != nil {
		return nil
	}
	beyond := d.state.BeyondWindow(d.o.CallWindow)
	for _, i := range step.Calls {
		call := d.state.Run.Turn.Calls[i]
		if call.Key != "" && call.End == nil && !call.AwaitsApproval() && !d.state.BeginsSubagent(call) && !beyond[i] {
			requests = append(requests, d.toolRequest(call, nil))
		}
	}
	return requests
}
