package driver

import (
	"context"
	"errors"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// drive carries out steps in the goroutine that [Driver.begin] has made the one who drives.
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
	// The signal of a run outlives the delivery that began it: it is aborted only while this one drives.
	defer context.AfterFunc(ctx, func() { d.abortWhile(this) })()
	err := panics.Guard("driver", func() error { return d.steps(ctx) })
	if err != nil {
		d.stop(err)
		return err
	}
	return d.counted(ctx)
}

// steps carries out steps until the session rests; driving has ended then.
func (d *Driver) steps(ctx context.Context) error {
	err := d.resume(ctx)
	for {
		if err != nil && !errors.Is(err, errFailed) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var done bool
		if done, err = d.once(ctx); done {
			return err
		}
	}
}

func (d *Driver) once(ctx context.Context) (done bool, err error) {
	for _, before := range []func(context.Context) error{d.recordArrivals, d.screen, d.askHooks} {
		if err := before(ctx); err != nil {
			return false, err
		}
	}
	return d.step(ctx)
}

// step carries out one step. done means that the session rests; driving has then been given up in the same critical
// section in which that was found, so that nothing that arrives is left lying.
func (d *Driver) step(ctx context.Context) (done bool, err error) {
	next, shown, done, err := d.choose(ctx)
	if done || err != nil {
		return done, err
	}
	switch step := next.(type) {
	case loop.Emit:
		if end, ok := step.Data.(*schemas.MessageEnd); ok && !shown.appended {
			return false, d.endMessage(ctx, end, step.CausationID)
		} else if !shown.appended {
			return false, d.counted(ctx)
		}
		return false, d.show(ctx, shown)
	case loop.StartRun:
		return false, d.startRun(ctx, step)
	case loop.CallModel:
		return false, d.callModel(ctx, step)
	case loop.RunTools:
		return false, d.runTools(ctx, step)
	case loop.Retry:
		return false, d.retry(ctx, step)
	case loop.StartCompaction:
		return false, d.startCompaction(ctx, step)
	case loop.Summarize:
		return false, d.summarize(ctx, step)
	case loop.Navigate:
		return false, d.navigate(ctx, step)
	case loop.AbortSubagent:
		return false, d.abortSubagent(ctx, step)
	case loop.Report:
		return false, d.report(ctx, step)
	}
	return false, nil
}

// choose chooses the next step, and appends the event if it is one that nobody is asked about and that waits for
// nothing. A nil step is one to be chosen again.
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
		case kind == schemas.EventAgentEnd && d.tally.Pending():
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
		rest = !d.unready(step) && !d.mustWait(step)
	}
	if rest {
		d.end()
	}
	return next, s, rest, err
}

// runSignal is the context of the run under way, or of a summary between runs: done when that is aborted, or while
// driving the driver stopped.
func (d *Driver) runSignal(ctx context.Context) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.signal == nil {
		d.signal, d.abort = context.WithCancelCause(context.WithoutCancel(ctx))
		if ctx.Err() != nil || d.state.Aborted() {
			d.abort(context.Canceled)
		}
	}
	return d.signal
}

// endSignal gives up the signal of a run that is over.
func (d *Driver) endSignal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abort != nil {
		d.abort(nil)
	}
	d.signal, d.abort = nil, nil
}

// Events gather in the log until they are sent together. The driver sends them before everything that may take a while,
// through the two functions below, so that nothing that was decided waits meanwhile.

// send has what was decided stored, and ends the deliveries whose result is in the log by now: they flush, which would
// tear apart what is decided together.
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

// outside calls what is not the driver's own: hooks, services, models, timers. A panic of it is a [panics.Error].
func (d *Driver) outside(what string, f func() error) error {
	d.send()
	return panics.Guard(what, f)
}

// resultOf is [Driver.outside] for what has a result.
func resultOf[T any](d *Driver, what string, f func() (T, error)) (result T, err error) {
	err = d.outside(what, func() (err error) {
		result, err = f()
		return err
	})
	return result, err
}

// wait returns when something arrives or over is closed, or with the error of ctx.
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

// maxPause is how long a process may have done nothing for a session before it has to verify, ahead of an effect that
// the log cannot fence, that it still owns the session. It is less than the second that other runners wait after the
// last heartbeat before they take a session over; the heartbeat may be a quarter of a second old by then.
const maxPause = 400 * time.Millisecond

// maxVerifications is how often ownership is verified before one effect. An answer that took longer than maxPause may
// be older than a suspension, so the driver verifies again; but a server that is always slow must not stop a session.
const maxVerifications = 3

// ownership notices that the process may have been suspended: then another process may own the session by now.
type ownership struct {
	active     time.Time // when the session was last worked on
	unverified time.Time // when the newest pause was noticed, until ownership is verified; else zero
}

// observe is called whenever the session is worked on. It compares wall clock and monotonic clock: only one of them
// goes on while a machine sleeps.
func (o *ownership) observe(now time.Time) {
	pause := max(now.Sub(o.active), now.Round(0).Sub(o.active.Round(0)))
	if !o.active.IsZero() && pause > maxPause {
		o.unverified = now
	}
	o.active = now
}

// verifyOwnership verifies, before a model or a tool is called, that no other process has taken the session over while
// this one was suspended. It costs nothing while the session is worked on without a pause; after one it waits for the
// first event that was stored since. The error is a [LostError], unless ctx has ended.
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
			return d.refused(ctx, seq+1, err)
		}
		d.mu.Lock()
		if d.ownership.unverified.Equal(unverified) { // and not of a later pause, such as one in the middle of this
			d.ownership.unverified = time.Time{}
		}
		d.mu.Unlock()
	}
	return nil
}
