package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// ErrStopped is the cause with which a driver is stopped without ending the run: another one goes on with it. It is a
// [context.Canceled], so that nobody takes it for a failure.
var ErrStopped = fmt.Errorf("driver stopped: %w", context.Canceled)

// Options are what a [Driver] works with. Log, Model, Tools and Configure are required.
type Options struct {
	Log    Log
	Model  Model
	Tools  Tools
	Live   Live   // nil: nobody is shown updates
	Timers Timers // nil: no deadline survives the process
	Clock  Clock  // nil: [SystemClock]
	Hooks  Hooks
	Rules  loop.Rules
	Tracer Tracer       // nil: no traces
	Logger *slog.Logger // nil: discarded
	Source string       // CloudEvents source of the events

	// Configure resolves what a run is driven with from the session's settings. It is called before each
	// run, and again if a command has come in meanwhile.
	Configure func(ctx context.Context, s *loop.State) (schemas.RunConfig, error)
	// Services are asked what the run's hooks name. InputHooks names whom to ask about an input that waits, for sessions
	// without a run too; nil asks nobody.
	Services   Services
	Budgets    Budgets // nil counts nothing
	InputHooks func(ctx context.Context, s *loop.State) []schemas.HookRef
	// PrepareArguments reshapes a call's raw arguments before they are validated; nil leaves them.
	PrepareArguments func(tool string, raw []byte) ([]byte, error)
	// OnEvent is told of every event once it is in the state, in order. It must not block.
	OnEvent func(e schemas.Event)
	// Listen is told of the agent's events in their full shape and awaited; an error fails the run.
	Listen Listener

	// Retryable says whether asking again may help after this failed reply; nil never does.
	Retryable func(reply *schemas.AssistantMessage) bool

	APIKey      string        // where GetAPIKey gives none
	SessionID   func() string // sent to the model; nil: the session's id
	IdleTimeout time.Duration // without a semantic event from the model; 0 is off
	AbortGrace  time.Duration // that running tools get to stop; 0 waits for ever
	// CallsInQueue is how many calls of one tool are handed over at once ([loop.Held]); 0 is no limit. The others follow as
	// results come.
	CallsInQueue int
	// LocalTools says that Tools executes in this process and answers through Deliver: the driver waits for the results
	// instead of resting.
	LocalTools bool
	// FailHard returns an error of a hook or the model from Drive instead of ending the run with a failure message.
	FailHard bool
}

// Driver carries out the steps of one session. One goroutine at a time drives, in [Driver.Handle] or [Driver.Drive];
// commands and results may come from any.
type Driver struct {
	o       Options
	session string

	mu       sync.Mutex
	state    *loop.State
	loaded   uint64 // sequence the state was loaded at: calls started up to there may have been dispatched by another process
	resumed  bool   // whether resuming has been looked at
	driving  bool
	broken   error              // why driving failed: the driver is to be given up
	quit     context.CancelFunc // stops the goroutine that drives
	arrivals []arrival
	arrived  chan struct{} // has a token when arrivals or an abort wait
	signal   context.Context
	abort    context.CancelCauseFunc

	standing  standing
	spans     spans
	accepting string // trace context of the command being accepted

	// Of the goroutine that drives:
	flights  map[schemas.CallKey]*flight
	steered  uint64 // sequence at which GetSteeringMessages was asked last
	followed uint64 // and GetFollowUpMessages
	stopped  uint64 // and ShouldStopAfterTurn
	screened uint64 // at which there was nothing for the services of the hook input
	failing  bool
	args     argsCache
	deadline deadline
	wakesAt  time.Time     // of the retry timer that was set last
	grace    chan struct{} // closed when aborted tools have had their time; nil before they were told
}

// New returns the driver of a session with the given state, which it owns from then on. A state that was not loaded
// from a log is new(loop.State) with its Session set.
func New(o Options, state *loop.State) *Driver {
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tracer == nil {
		o.Tracer = noTracer{}
	}
	return &Driver{
		o: o, session: state.Session, state: state, loaded: state.Seq, resumed: state.Run == nil,
		arrived: make(chan struct{}, 1), flights: make(map[schemas.CallKey]*flight),
	}
}

// View calls f with the state. f must not keep or change it, nor call the driver.
func (d *Driver) View(f func(s *loop.State)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.state)
}

// Abort signals the run under way without a command: the in-memory way (behaviour A2.10). Queues stay as they are.
func (d *Driver) Abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abort != nil {
		d.abort(context.Canceled)
	}
}

// wake tells the driving goroutine that something has come.
func (d *Driver) wake() {
	select {
	case d.arrived <- struct{}{}:
	default:
	}
}

// Drive carries out steps until the session rests, and returns nil; or until ctx is done, a step fails for good, or the
// log refuses an event. After an error the driver must be given up: its state may be ahead of the log. It returns nil at
// once if another goroutine drives.
func (d *Driver) Drive(ctx context.Context) error {
	d.mu.Lock()
	if d.driving {
		d.mu.Unlock()
		return nil
	}
	d.driving = true
	d.mu.Unlock()
	return d.drive(ctx)
}

func (d *Driver) drive(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.mu.Lock()
	d.quit = cancel
	d.mu.Unlock()
	defer context.AfterFunc(ctx, d.Abort)() // the signal of a run outlives the delivery that began it
	err := d.resume(ctx)
	for err == nil {
		if err = ctx.Err(); err != nil {
			break
		}
		var done bool
		if done, err = d.once(ctx); done {
			return err
		}
		if errors.Is(err, errFailed) {
			err = nil
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.driving, d.broken = false, err
	for _, a := range d.arrivals {
		a.settle()
	}
	d.arrivals = nil
	return err
}

// giveUp has the goroutine that drives stop where it is: the session is lost, and what a model still says goes nowhere.
func (d *Driver) giveUp(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil {
		d.broken = cause
	}
	if d.quit != nil {
		d.quit()
	}
}

func (d *Driver) once(ctx context.Context) (done bool, err error) {
	if err := d.takeArrivals(ctx); err != nil {
		return false, err
	}
	if err := d.screen(ctx); err != nil {
		return false, err
	}
	if err := d.askHooks(ctx); err != nil {
		return false, err
	}
	return d.step(ctx)
}

// step carries out one step. done means that the session rests; driving has then been given up in the same critical
// section in which that was found, so that nothing that arrives is left lying.
func (d *Driver) step(ctx context.Context) (done bool, err error) {
	d.mu.Lock()
	if len(d.arrivals) > 0 || d.unscreened() {
		d.mu.Unlock()
		return false, nil
	}
	next := loop.Next(d.state)
	switch step := next.(type) {
	case loop.Emit:
		if end, ok := step.Data.(*schemas.MessageEnd); ok && d.hears(schemas.HookMessageEnd) {
			d.mu.Unlock()
			return false, d.endMessage(ctx, end, step.CausationID)
		}
		shown, err := d.append(ctx, step.Data, step.CausationID)
		d.mu.Unlock()
		if err == nil {
			err = d.show(ctx, shown)
		}
		return false, err
	case loop.Rest:
		d.driving = false
		d.mu.Unlock()
		return true, nil
	case loop.Retry:
		if d.mayRest(step) {
			d.driving = false
			d.mu.Unlock()
			return true, nil
		}
	case loop.RunTools:
		if !d.unready(step) && !d.mustWait(step) {
			d.driving = false
			d.mu.Unlock()
			return true, nil
		}
	}
	d.mu.Unlock()
	switch step := next.(type) {
	case loop.StartRun:
		return false, d.startRun(ctx, step)
	case loop.CallModel:
		return false, d.callModel(ctx, step)
	case loop.RunTools:
		return false, d.runTools(ctx, step)
	case loop.Retry:
		return false, d.retry(ctx, step)
	}
	return false, nil
}

// runSignal is the context of the run under way: done when the run is aborted, or while driving the driver stopped.
func (d *Driver) runSignal(ctx context.Context) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.signal == nil {
		d.signal, d.abort = context.WithCancelCause(context.WithoutCancel(ctx))
		if r := d.state.Run; ctx.Err() != nil || r != nil && r.Abort != nil {
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

// arm makes the signal of the run about to start, which is aborted when ctx is done.
func (d *Driver) arm(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.signal, d.abort = context.WithCancelCause(ctx)
}
