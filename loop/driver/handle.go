package driver

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// arrival is a tool's result or partial result on its way to the driving goroutine.
type arrival struct {
	cause   string
	result  *schemas.ToolResponse
	partial *schemas.ToolResult
	call    schemas.CallKey
	done    chan struct{} // closed when the result is in the log, or will never be
}

func (a arrival) settle() {
	if a.done != nil {
		close(a.done)
	}
}

// Handle takes in one message of the session's inbox and returns when it may be acknowledged (docs/architecture.md, the rule
// of rest): once what it did is stored, and, if this call is the one that drives the session, once the session is at
// rest again. entered, if not nil, is called as soon as the command has its place in the order, which is
// when it is stored.
//
// A command the log knows already changes nothing. An error means that the message must be delivered again, and that
// the driver is to be given up if it is a [LostError] or ctx is done.
func (d *Driver) Handle(ctx context.Context, c schemas.Command, entered func()) error {
	d.mu.Lock()
	done, err := d.take(ctx, c)
	drive := err == nil && !d.driving
	d.driving = d.driving || drive
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if entered != nil {
		var storing sync.WaitGroup
		storing.Go(func() { d.enter(ctx, done, entered) })
		defer storing.Wait()
	}
	if drive {
		if err := d.drive(ctx); err != nil {
			return err
		}
	} else if done != nil {
		d.wake()
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
		d.mu.Lock()
		err := d.broken
		d.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return d.o.Log.Flush(ctx)
}

// enter calls entered once what came is stored: until then another writer may hold the session, and the message will be
// delivered again. Nobody waits for it but the next message of the session. A tool's result has its place when done is
// closed.
func (d *Driver) enter(ctx context.Context, done <-chan struct{}, entered func()) {
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
	if d.o.Log.Flush(ctx) == nil {
		entered()
	}
}

// take puts a command into the log, or a tool's result before the driving goroutine. The caller holds the lock.
func (d *Driver) take(ctx context.Context, c schemas.Command) (done chan struct{}, err error) {
	if d.broken != nil {
		return nil, d.broken
	}
	if response, ok := c.Data.(*schemas.ToolResponse); ok {
		if call := d.state.Call(response.Call); call == nil || call.End != nil {
			return nil, nil // settled, or of a turn long gone: the first result was the result
		}
		done = make(chan struct{})
		d.arrivals = append(d.arrivals, arrival{cause: c.ID, result: response, call: response.Call, done: done})
		return done, nil
	}
	return nil, d.accept(ctx, c)
}

func (d *Driver) accept(ctx context.Context, c schemas.Command) error {
	raw, err := schemas.Marshal(c.Data)
	if err != nil {
		return err
	}
	if string(raw) == "{}" {
		raw = nil
	}
	if err := d.payOwed(ctx); err != nil {
		return err
	}
	d.accepting = c.TraceParent
	for _, data := range loop.Accept(d.state, c, json.RawMessage(raw), d.o.Rules) {
		if _, err := d.append(ctx, data, c.ID); err != nil {
			return err
		}
	}
	if r := d.state.Run; r != nil && r.Abort != nil && d.abort != nil {
		d.abort(context.Canceled)
		d.wake()
	}
	return nil
}

// payOwed completes what an earlier process left of a command: what it decided was decided before the next one came. The
// caller holds the lock.
func (d *Driver) payOwed(ctx context.Context) error {
	for len(d.state.Owed) > 0 {
		owed, ok := loop.Next(d.state).(loop.Emit)
		if !ok {
			return nil
		}
		if _, err := d.append(ctx, owed.Data, owed.CausationID); err != nil {
			return err
		}
	}
	return nil
}

// Accept takes in a command without driving: what the in-memory Agent's methods do.
func (d *Driver) Accept(ctx context.Context, c schemas.Command) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.accept(ctx, c)
}

// Append puts an event of the service into the log, such as a command_rejected or transcript_replaced.
func (d *Driver) Append(ctx context.Context, data schemas.EventData, cause string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.append(ctx, data, cause)
	return err
}

// arrive is how local tools answer.
func (d *Driver) arrive(a arrival) {
	d.mu.Lock()
	d.arrivals = append(d.arrivals, a)
	d.mu.Unlock()
	d.wake()
}

// takeArrivals puts what has arrived into the log, in the order of arrival.
func (d *Driver) takeArrivals(ctx context.Context) error {
	for {
		d.mu.Lock()
		if len(d.arrivals) == 0 {
			d.mu.Unlock()
			return nil
		}
		a := d.arrivals[0]
		d.arrivals = d.arrivals[1:]
		var call *loop.Call
		if c := d.state.Call(a.call); c != nil && c.End == nil {
			copied := *c
			call = &copied
		}
		d.mu.Unlock()
		var err error
		switch {
		case call == nil: // settled meanwhile
		case a.result != nil:
			err = d.finish(ctx, *call, a)
		default:
			err = d.showPartial(ctx, *call, a.partial)
		}
		a.settle()
		if err != nil {
			return err
		}
	}
}

func (d *Driver) showPartial(ctx context.Context, c loop.Call, partial *schemas.ToolResult) error {
	return d.show(ctx, shown{is: true, event: AgentEvent{
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

// reject puts a refusal into the log, unless the log knows the command.
func (d *Driver) reject(ctx context.Context, r schemas.CommandRejected) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return d.broken
	}
	if d.state.Taken[r.CommandID] {
		return nil
	}
	_, err := d.append(ctx, &r, r.CommandID)
	return err
}
