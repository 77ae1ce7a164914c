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

// Handle processes one message of the session's inbox. It returns when the message may be acknowledged
// (docs/architecture.md, the rule of rest): when what the message did is stored and, if this call drives the session,
// the session is at rest again. entered, if not nil, is called once the command is stored, which fixes its place in the
// order.
//
// A command that the log knows changes nothing. After an error the message must be redelivered. If the error is [Lost],
// the driver must be given up as well; otherwise the session's other deliveries continue, and one of them that waits
// for its own result drives in place of the delivery that failed.
func (d *Driver) Handle(ctx context.Context, c schemas.Command, entered func()) error {
	done, over, mine, err := d.receive(ctx, c)
	if err != nil {
		return err
	}
	storing, cancel := context.WithCancel(ctx)
	defer cancel()
	var stored sync.WaitGroup
	if entered != nil {
		stored.Go(func() { d.notifyEntered(storing, done, entered) })
	}
	err = d.driveOrAwait(ctx, done, over, mine)
	if err == nil {
		err = d.Flush(ctx)
	}
	if err == nil {
		err = d.givenUp()
	}
	if err != nil {
		cancel()
	}
	stored.Wait()
	return err
}

// givenUp returns why the driver was given up, or nil. After that another driver may have loaded the session without
// the events that were stored since, and rest although they gave it work: the message that caused them must be
// redelivered.
func (d *Driver) givenUp() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}

// receive admits a command and makes this delivery drive, unless another one does.
func (d *Driver) receive(ctx context.Context, c schemas.Command) (done, over <-chan struct{}, mine bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if done, err = d.admit(ctx, c); err == nil {
		over, mine = d.begin()
	}
	return done, over, mine, err
}

// driveOrAwait drives, or waits until the tool result that this delivery brought is in the log. If the goroutine that
// drives stops before that, this one drives in its place.
func (d *Driver) driveOrAwait(ctx context.Context, done, over <-chan struct{}, mine bool) error {
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

// notifyEntered calls entered once the message is stored. Until then another writer may own the session, and the
// message will be redelivered. Only the session's next message waits for the call. A tool's result is in the log when
// done is closed.
func (d *Driver) notifyEntered(ctx context.Context, done <-chan struct{}, entered func()) {
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

// admit puts a command into the log, or queues a tool's result for the goroutine that drives. done is closed when that
// result is in the log, and nil for a command. The caller holds the lock.
func (d *Driver) admit(ctx context.Context, c schemas.Command) (done chan struct{}, err error) {
	if d.broken != nil {
		return nil, d.broken
	}
	if response, ok := c.Data.(*schemas.ToolResponse); ok {
		call := d.state.Call(response.Call)
		if !awaitsResult(call, response) {
			return nil, nil
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
	if timer, ok := c.Data.(*schemas.Timer); ok && timer.Name == schemas.TimerRetry {
		d.retryTimerFired(c.ID)
	}
	_, err = d.accept(ctx, c)
	d.o.Log.Send() // the sender waits for the event, and of a new session it is the first one to be seen
	return nil, err
}

// awaitsResult reports whether a worker has the call and it still needs this result. The first result ends a call.
func awaitsResult(call *loop.Call, r *schemas.ToolResponse) bool {
	return call != nil && call.End == nil && !call.AwaitsApproval() && call.Subagent == "" &&
		r.Answers(call.Nonce)
}

// isVoid reports whether a command is an abort, or the answer to an approval, that nobody can ask about, of a session
// without a log. A deleter sends such aborts, and one that arrives late must not begin the session again that was
// deleted. The caller holds the lock.
func (d *Driver) isVoid(c schemas.Command) bool {
	switch c.Data.(type) {
	case *schemas.Abort, *schemas.Approve, *schemas.Deny:
		return c.Anonymous && d.state.Seq == 0
	}
	return false
}

// accept puts a command into the log. refused is its rejection, nil if the command was accepted.
func (d *Driver) accept(ctx context.Context, c schemas.Command) (refused *schemas.CommandRejected, err error) {
	if d.isVoid(c) {
		return nil, nil
	}
	if known, err := d.knows(ctx, c.ID, c.InboxPosition); known || err != nil {
		return nil, err
	}
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
			d.abort()
		}
		d.wake() // it may wait for a retry
	}
	return refused, nil
}

// knows reports whether the log has a command. It reads the log if the state may have forgotten the command. The caller
// holds the lock.
func (d *Driver) knows(ctx context.Context, command string, at schemas.InboxPosition) (bool, error) {
	if d.state.Known.Has(command) {
		return true, nil
	}
	if !d.state.Known.MayHaveForgotten(at) {
		return false, nil
	}
	err := d.o.Log.Flush(ctx)
	if err == nil {
		loading, end := d.o.Loads.Stream(ctx)
		defer end()
		err = d.older.ReadOn(d.o.Log.Read(loading, d.older.Next()))
	}
	if err != nil {
		return false, fmt.Errorf("look for command %s in the log of session %s: %w", command, d.session, err)
	}
	return d.older.Has(command), nil
}

// payOwed appends the events that an earlier process owed for a command: they were decided before the next command
// came. The caller holds the lock.
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

// Accept puts a command into the log without driving, for the methods of the in-memory Agent. refused is the command's
// rejection, which is then in the log and all that the command changes.
func (d *Driver) Accept(ctx context.Context, c schemas.Command) (refused *schemas.CommandRejected, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.o.Log.Send()
	return d.accept(ctx, c)
}

// Append puts an event of the service into the log, such as transcript_replaced. cause is the id of the command that
// caused it, or empty.
func (d *Driver) Append(ctx context.Context, data schemas.EventData, cause string) error {
	defer d.o.Log.Send()
	_, err := d.put(ctx, data, cause)
	return err
}

// answer queues a result that this process gives to a call.
func (d *Driver) answer(call schemas.CallKey, result schemas.ToolResult, isError bool) {
	d.arrive(arrival{call: call, result: &schemas.ToolResponse{Call: call, Result: result, IsError: isError}})
}

func (d *Driver) arrive(a arrival) {
	d.mu.Lock()
	d.arrivals = append(d.arrivals, a)
	d.mu.Unlock()
	d.wake()
}

// Reject puts the rejection of a command into the log, unless the log knows the command.
func (d *Driver) Reject(ctx context.Context, r schemas.CommandRejected) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return d.broken
	}
	known, err := d.knows(ctx, r.CommandID, r.InboxPosition)
	if known || err != nil {
		return err
	}
	r.InboxPosition = d.state.Known.Position(r.InboxPosition)
	_, err = d.append(ctx, &r, r.CommandID)
	return err
}

// begin makes the caller the goroutine that drives, unless another one is; mine reports which. over is closed when
// driving stops. The caller holds the lock.
func (d *Driver) begin() (over <-chan struct{}, mine bool) {
	if d.driving == nil {
		d.driving, mine = make(chan struct{}), true
	}
	return d.driving, mine
}

// end ends driving. The caller holds the lock.
func (d *Driver) end() {
	close(d.driving)
	d.driving, d.quit = nil, nil
}

// Resting reports whether no goroutine drives: the session is at rest, or a delivery failed and will be redelivered.
func (d *Driver) Resting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.driving == nil
}
