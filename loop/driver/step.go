package driver

import (
	"context"
	"errors"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// drive carries out steps until the session is at rest, in the goroutine that [Driver.begin] has chosen.
func (d *Driver) drive(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer d.send()
	d.mu.Lock()
	this := d.driving
	if d.quit = cancel; d.broken != nil {
		cancel()
	}
	d.mu.Unlock()
	// The abort signal of a run outlives the delivery that started the run; ctx cancels it only while this goroutine
	// drives.
	defer context.AfterFunc(ctx, func() { d.abortWhile(this) })()
	err := panics.Guard("driver", func() error { return d.steps(ctx) })
	if err != nil {
		d.stop(err)
		return err
	}
	return d.awaitCounted(ctx)
}

// steps carries out steps until the session rests; driving has ended then.
func (d *Driver) steps(ctx context.Context) error {
	err := d.resume(ctx)
	for err == nil || errors.Is(err, errFailed) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var rest bool
		if rest, err = d.step(ctx); rest {
			return nil
		}
	}
	return err
}

// step records what has arrived, asks the hooks that are due, and carries out one step. If there is none to carry out,
// rest is true and [Driver.choose] has ended driving.
func (d *Driver) step(ctx context.Context) (rest bool, err error) {
	if err := d.recordArrivals(ctx); err != nil {
		return false, err
	}
	if err := d.screen(ctx); err != nil {
		return false, err
	}
	if err := d.askHooks(ctx); err != nil {
		return false, err
	}
	next, shown, rest, err := d.choose(ctx)
	if rest || err != nil {
		return rest, err
	}
	return false, d.carryOut(ctx, next, shown)
}

// carryOut carries out a step. shown is the event of an [loop.Emit] if [Driver.choose] has appended it.
func (d *Driver) carryOut(ctx context.Context, next loop.Step, shown shown) error {
	switch step := next.(type) {
	case loop.Emit:
		if shown.appended {
			return d.show(ctx, shown)
		}
		if end, ok := step.Data.(*schemas.MessageEnd); ok {
			return d.endMessage(ctx, end, step.CausationID)
		}
		if waitsForRoom(step.Data) {
			return d.emitCopies(ctx, step)
		}
		return d.awaitCounted(ctx) // an agent_end, which the next choice appends
	case loop.StartRun:
		return d.startRun(ctx, step)
	case loop.CallModel:
		return d.callModel(ctx, step)
	case loop.RunTools:
		return d.runTools(ctx, step)
	case loop.Retry:
		return d.retry(ctx, step)
	case loop.StartCompaction:
		return d.startCompaction(ctx, step)
	case loop.Summarize:
		return d.summarize(ctx, step)
	case loop.Navigate:
		return d.navigate(ctx, step)
	case loop.AbortSubagent:
		return d.abortSubagent(ctx, step)
	case loop.Report:
		return d.report(ctx, step)
	}
	return nil // choose again
}

// choose chooses the next step. If the step is an event that no hook is asked about and that waits for nothing, choose
// appends it in the same critical section. If the session is at rest, choose ends driving in that section, so that
// nothing that arrives is left unprocessed. A nil step means: choose again.
func (d *Driver) choose(ctx context.Context) (next loop.Step, s shown, rest bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.arrivals) > 0 || d.unscreened() {
		return nil, s, false, nil
	}
	next = loop.Next(d.state)
	switch step := next.(type) {
	case loop.Emit:
		switch kind := step.Data.EventType(); {
		case kind == schemas.EventMessageEnd && d.asksAt(schemas.HookMessageEnd):
		case kind == schemas.EventAgentEnd && d.counting.Pending():
		case waitsForRoom(step.Data):
		default:
			s, err = d.append(ctx, step.Data, step.CausationID)
		}
	case loop.Rest:
		rest = true
	case loop.Retry:
		rest = d.mayRest(step.NotBefore)
	case loop.Summarize:
		rest = d.mayRest(step.NotBefore)
	case loop.RunTools:
		rest = !d.unready(step) && !d.local() && !step.Aborted
	}
	if rest {
		d.end()
	}
	return next, s, rest, err
}

// runSignal returns the abort signal of the run under way, or of a summary between runs: a context that is cancelled
// when the run is aborted or the goroutine that drives is stopped.
func (d *Driver) runSignal(ctx context.Context) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.signal == nil {
		d.signal, d.abort = context.WithCancel(context.WithoutCancel(ctx))
		if ctx.Err() != nil || d.state.Aborted() {
			d.abort()
		}
	}
	return d.signal
}

// endSignal releases the abort signal of a run that has ended.
func (d *Driver) endSignal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dropSignal()
}

// dropSignal is [Driver.endSignal] for a caller that holds the lock.
func (d *Driver) dropSignal() {
	if d.abort != nil {
		d.abort()
	}
	d.signal, d.abort = nil, nil
}

// Events gather in the log until they are sent together. The driver sends them before anything that may take a while,
// through the functions below, so that no decision waits to be stored in the meantime.

// send sends the gathered events, and then ends the deliveries whose results are in the log: a delivery flushes when it
// ends, which before send would split events that were decided together into several commits.
func (d *Driver) send() {
	d.o.Log.Send()
	d.mu.Lock()
	recorded := d.recorded
	d.recorded = nil
	d.mu.Unlock()
	for _, a := range recorded {
		a.finish()
	}
}

// outside sends the gathered events and calls code that is not the driver's own: hooks, services, models, timers. It
// returns a panic of that code as a [panics.Error].
func (d *Driver) outside(what string, f func() error) error {
	d.send()
	return panics.Guard(what, f)
}

// resultOf is [Driver.outside] for functions with a result.
func resultOf[T any](d *Driver, what string, f func() (T, error)) (result T, err error) {
	err = d.outside(what, func() (err error) {
		result, err = f()
		return err
	})
	return result, err
}

// wait sends the gathered events and waits until something arrives, over is closed or ctx is done.
func (d *Driver) wait(ctx context.Context, over <-chan struct{}) error {
	d.send()
	select {
	case <-d.arrived:
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// maxPause is how long a driver may do nothing before it has to verify, ahead of an effect that the log cannot fence,
// that its process still owns the session. Other runners take a session over one second after the last heartbeat, which
// may be a quarter of a second old when the pause begins; maxPause is less than the rest.
const maxPause = 400 * time.Millisecond

// maxVerifications bounds the verifications before one effect. An answer that took longer than maxPause may be older
// than a suspension, so the driver verifies again; but a server that is always slow must not stop a session.
const maxVerifications = 3

// ownership detects that the process may have been suspended, so that another process may own the session.
type ownership struct {
	active     time.Time // when the driver last did something for the session
	unverified time.Time // when the newest pause was detected; zero once ownership is verified
}

// observe is called whenever the driver does something for the session. It compares both the wall clock and the
// monotonic clock, because only one of them advances while a machine sleeps.
func (o *ownership) observe(now time.Time) {
	pause := max(now.Sub(o.active), now.Round(0).Sub(o.active.Round(0)))
	if !o.active.IsZero() && pause > maxPause {
		o.unverified = now
	}
	o.active = now
}

// verifyOwnership verifies, before a model or a tool is called, that no other process took the session over while this
// one was suspended. Without a pause it does nothing; after one it waits until an event sent since then is stored. The
// error is a [LostError], unless ctx has ended.
func (d *Driver) verifyOwnership(ctx context.Context) error {
	for range maxVerifications {
		now := d.o.Clock.Now()
		d.mu.Lock()
		d.ownership.observe(now)
		unverified, seq := d.ownership.unverified, d.state.Seq
		d.mu.Unlock()
		if unverified.IsZero() {
			return nil
		}
		if err := d.o.Log.Confirm(ctx, unverified); err != nil {
			return d.logError(ctx, seq+1, err)
		}
		d.mu.Lock()
		if d.ownership.unverified.Equal(unverified) { // no later pause was detected during the request
			d.ownership.unverified = time.Time{}
		}
		d.mu.Unlock()
	}
	return nil
}
