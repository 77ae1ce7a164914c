package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// Handle receives one message of the session's inbox and returns when it may be acknowledged (docs/architecture.md, the
// rule of rest): once what it did is stored, and, if this call is the one that drives the session, once the session is
// at rest again. entered, if not nil, is called as soon as the command has its place in the order, which is when it is
// stored.
//
// A command the log knows already changes nothing. An error means that the message must be redelivered, and, if it
// is [Lost], that the driver is to be given up. After any other the driver goes on with the other deliveries of the
// session: one that waits for its own result drives in place of the one that has failed.
func (d *Driver) Handle(ctx context.Context, c schemas.Command, entered func()) error {
	done, over, mine, err := d.receive(ctx, c)
	if err != nil {
		return err
	}
	storing, cancel := context.WithCancel(ctx)
	defer cancel()
	var stored sync.WaitGroup
	if entered != nil {
		stored.Go(func() { d.enter(storing, done, entered) })
	}
	err = d.follow(ctx, done, over, mine)
	if err == nil {
		err = d.Flush(ctx)
	}
	if err != nil {
		cancel()
	}
	stored.Wait()
	return err
}

// receive admits a command, and makes its delivery the one that drives unless another delivery does.
func (d *Driver) receive(ctx context.Context, c schemas.Command) (done, over <-chan struct{}, mine bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if done, err = d.admit(ctx, c); err == nil {
		over, mine = d.begin()
	}
	return done, over, mine, err
}

// follow drives, or waits until the result that came is in the log: then in place of whoever drove, should that one
// fail.
func (d *Driver) follow(ctx context.Context, done, over <-chan struct{}, mine bool) error {
	if mine {
		return d.drive(ctx)
	}
	if done == nil {
		return nil
	}
	d.wake()
	for {
		select {
		case <-done:
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.broken
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
		}
		d.mu.Lock()
		over, mine = d.begin()
		d.mu.Unlock()
		if mine {
			return d.drive(ctx)
		}
	}
}

// enter calls entered once what came is stored: until then another writer may own the session, and the message will be
// redelivered. Nobody waits for it but the next message of the session. A tool's result has its place when done is
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
		d.logPanic(panics.Guard("entered", func() error { entered(); return nil }))
	}
}

// admit puts a command into the log, or queues a tool's result for the goroutine that drives. The caller holds the
// lock.
func (d *Driver) admit(ctx context.Context, c schemas.Command) (done chan struct{}, err error) {
	if d.broken != nil {
		return nil, d.broken
	}
	if response, ok := c.Data.(*schemas.ToolResponse); ok {
		call := d.state.Call(response.Call)
		if call == nil || call.End != nil || response.Nonce != "" && response.Nonce != call.Nonce {
			return nil, nil // it has ended, or its turn has: the first result was the result; or it is another call's
		}
		done = make(chan struct{})
		d.arrivals = append(d.arrivals, arrival{cause: c.ID, result: response, call: response.Call, done: done})
		return done, nil
	}
	if result, ok := c.Data.(*schemas.SubagentResult); ok && d.awaits(result) {
		done = make(chan struct{})
		d.arrivals = append(d.arrivals, arrival{
			cause: c.ID, result: d.answerOf(result), call: result.Call, done: done, subagent: result,
		})
		return done, nil
	}
	_, err = d.accept(ctx, c)
	d.o.Log.Send() // its sender waits for it, and it is the first that is seen of a new session
	return nil, err
}

// accept puts a command into the log; refused is its refusal, if that is what becomes of it.
func (d *Driver) accept(ctx context.Context, c schemas.Command) (refused *schemas.CommandRejected, err error) {
	raw, err := schemas.Marshal(c.Data)
	if err != nil {
		return nil, fmt.Errorf("command %s of session %s: %w", c.ID, d.session, err)
	}
	if string(raw) == "{}" {
		raw = nil
	}
	if err := d.payOwed(ctx); err != nil {
		return nil, err
	}
	d.accepting = c.TraceParent
	if refused, err = d.checkEdited(ctx, &c); err != nil {
		return nil, err
	}
	if refused != nil {
		_, err := d.append(ctx, refused, c.ID)
		return refused, err
	}
	for _, data := range loop.Accept(d.state, c, json.RawMessage(raw), d.o.Rules) {
		if _, err := d.append(ctx, data, c.ID); err != nil {
			return nil, err
		}
		if r, ok := data.(*schemas.CommandRejected); ok {
			refused = r
		}
	}
	if d.state.Aborted() {
		if d.abort != nil {
			d.abort(context.Canceled)
		}
		d.wake() // where nothing is at work it may be waited for that something is asked again
	}
	return refused, nil
}

// payOwed completes what an earlier process left of a command: what it decided was decided before the next one came.
// The caller holds the lock.
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

// Accept admits a command without driving: what the in-memory Agent's methods do. refused is not nil where the
// command changes nothing but that its refusal is in the log.
func (d *Driver) Accept(ctx context.Context, c schemas.Command) (refused *schemas.CommandRejected, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.o.Log.Send()
	return d.accept(ctx, c)
}

// Append puts an event of the service into the log, such as a command_rejected or transcript_replaced.
func (d *Driver) Append(ctx context.Context, data schemas.EventData, cause string) error {
	defer d.o.Log.Send()
	_, err := d.put(ctx, data, cause)
	return err
}

// answer has a call answered by this process.
func (d *Driver) answer(call schemas.CallKey, result schemas.ToolResult, isError bool) {
	d.arrive(arrival{call: call, result: &schemas.ToolResponse{Call: call, Result: result, IsError: isError}})
}

func (d *Driver) arrive(a arrival) {
	d.mu.Lock()
	d.arrivals = append(d.arrivals, a)
	d.mu.Unlock()
	d.wake()
}

// Reject puts a refusal into the log, unless the log knows the command.
func (d *Driver) Reject(ctx context.Context, r schemas.CommandRejected) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return d.broken
	}
	if d.state.Known.Has(r.CommandID) {
		return nil
	}
	_, err := d.append(ctx, &r, r.CommandID)
	return err
}

// begin makes the caller the one who drives, unless somebody does. over is closed when whoever drives stops. The caller
// holds the lock.
func (d *Driver) begin() (over <-chan struct{}, mine bool) {
	if d.driving == nil {
		d.driving, mine = make(chan struct{}), true
	}
	return d.driving, mine
}

// end is the end of driving. The caller holds the lock.
func (d *Driver) end() {
	close(d.driving)
	d.driving, d.quit = nil, nil
}

// Resting reports whether nobody drives: the session is at rest, or a delivery has failed that will come again.
func (d *Driver) Resting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.driving == nil
}
