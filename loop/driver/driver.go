// Package driver carries out the steps that package loop chooses, for one session: a [Driver] works over a [Log], a
// [Model] and [Tools] of your choice. Package host has one driver for each session of a runner, package agent one for a
// conversation in this process.
//
// The interfaces it needs are declared here, and small; packages eventstore, bus and tools provide them, and so can
// you.
//
// # Rules of a driver
//
// Choosing a step and appending its event are one critical section, so no event comes between the two. Whatever others
// can see of an event waits until it is stored ([Log].Flush): the dispatch of a tool call, the acknowledgement of a
// command, the deltas of a reply. A model never waits for the log.
//
// The goroutine that delivers a message drives its session until it is at rest, if nobody else does ([Driver.Handle]).
// There is no other scheduler, and a session at rest has no goroutine and no timer.
//
// # Failures
//
// Once a log refuses an event, the driver stops without another effect and has to be given up: its state may be ahead
// of the log. Such an error is a [LostError]; it wraps [ErrConflict] where another writer owns the session. The next
// process that loads the session folds its log and goes on. So it is after a panic. Any other error ends one delivery,
// whose message is to be redelivered; the driver goes on from the state it has, as from a log ([Lost]).
//
// An error or panic of the model's stream or of a hook ends the run with a failure message, and an error, panic or
// timeout of a tool becomes the call's error result. Neither ends the process.
//
// # Behaviour
//
// What happens in each situation, to the event, is tested by recorded scenarios of the reference implementation ("pi"),
// in the testdata of package agent. Differences that are meant: a reply cut off by its output limit has none of its
// calls executed, agent_end tells why the run ended, and on a bus an abort ends the run without asking the model again.
package driver

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/internal/background"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// nonceLength is how many characters of five bits a nonce has: 80 bits, which nobody tries out.
const nonceLength = 16

// ErrStopped is the cause with which a driver is stopped without ending the run: another one goes on with it. It is a
// [context.Canceled], so that it is not mistaken for a failure.
var ErrStopped = fmt.Errorf("driver stopped: %w", context.Canceled)

// Driver carries out the steps of one session. One goroutine at a time drives, in [Driver.Handle] or [Driver.Drive];
// commands and results may come from any.
type Driver struct {
	o       Options
	tools   Tools
	session string

	mu       sync.Mutex
	state    *loop.State
	loaded   uint64             // sequence driving began at: calls started up to there may have been dispatched before
	resumed  bool               // whether [Driver.resume] has run
	waited   bool               // the run that driving began with rested, for its sub-agents
	driving  chan struct{}      // closed when the goroutine that drives stops; nil while none does
	broken   error              // why the driver is to be given up
	quit     context.CancelFunc // stops the goroutine that drives
	arrivals []arrival
	recorded []arrival     // those whose deliveries wait for the next send
	arrived  chan struct{} // has a token when arrivals or an abort wait
	signal   context.Context
	abort    context.CancelCauseFunc

	ownership ownership
	spans     spans
	accepting string // trace context of the command being accepted

	tasks sync.WaitGroup // background goroutines, without the one that drives

	// Of the goroutine that drives:
	flights   map[schemas.CallKey]*flight
	steered   uint64 // sequence at which GetSteeringMessages was asked last
	followed  uint64 // and GetFollowUpMessages
	stopped   uint64 // and ShouldStopAfterTurn
	screened  uint64 // at which there was nothing for the services of the hook input
	failing   bool
	args      argsCache
	deadline  background.Requests
	tally     background.Requests // what replies used, for the budget of their profile
	recounted bool                // of a reply that the process before may not have counted
	wakesAt   time.Time           // of the retry timer that was set last
	grace     chan struct{}       // closed when aborted tools have had their time; nil before they were cancelled
}

// New returns the driver of a session with the given state, which it owns from then on. A state that was not loaded
// from a log is new(loop.State) with its Session set.
func New(o Options, state *loop.State) *Driver {
	if o.Nonce == nil {
		o.Nonce = func() string { return rand.Text()[:nonceLength] }
	}
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tracer == nil {
		o.Tracer = noTracer{}
	}
	d := &Driver{
		o: o, tools: o.Tools, session: state.Session, state: state, loaded: state.Seq,
		resumed: state.Run == nil, waited: waits(state),
		arrived: make(chan struct{}, 1), flights: make(map[schemas.CallKey]*flight), args: make(argsCache),
	}
	if !o.Opened.IsZero() {
		d.ownership.observe(o.Opened)
	}
	if o.Execute != nil {
		d.tools = localTools{d}
	}
	return d
}

// local reports whether calls are executed in this process.
func (d *Driver) local() bool { return d.o.Execute != nil }

// View calls f with the state. f must not keep or change it, nor call the driver.
func (d *Driver) View(f func(s *loop.State)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.state)
}

// Abort signals the run under way without a command: the in-memory way. Queues stay as they are.
func (d *Driver) Abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abort != nil {
		d.abort(context.Canceled)
	}
}

// abortWhile signals the run under way if driving has not ended since.
func (d *Driver) abortWhile(driving chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.driving == driving && d.abort != nil {
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
// log refuses an event. After an error that is [Lost] the driver must be given up; after any other, the next Drive goes
// on where this one stopped. It returns nil at once if another goroutine drives.
func (d *Driver) Drive(ctx context.Context) error {
	d.mu.Lock()
	_, mine := d.begin()
	d.mu.Unlock()
	if !mine {
		return nil
	}
	return d.drive(ctx)
}

// Run is [Driver.Drive] for a run in memory, with ctx as the abort signal of the run that is about to start: where ctx
// is done the run is aborted, and stored like any other.
func (d *Driver) Run(ctx context.Context) error {
	d.mu.Lock()
	d.signal, d.abort = context.WithCancelCause(ctx)
	d.mu.Unlock()
	return d.Drive(context.WithoutCancel(ctx))
}

// stop ends driving because of err. If the session is not lost by it, whoever drives next goes on as another process
// would: what was at work is closed in the log, calls may have been dispatched, and another runner may own the session.
func (d *Driver) stop(err error) {
	now := d.o.Clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logPanic(err)
	if d.broken == nil && Lost(err) {
		d.broken = err
	}
	d.end()
	if d.broken != nil {
		d.drop()
		return
	}
	d.loaded, d.resumed, d.waited = d.state.Seq, d.state.Run == nil, waits(d.state)
	for _, f := range d.flights {
		f.end(spanLeft)
	}
	clear(d.flights)
	d.grace, d.failing, d.wakesAt = nil, false, time.Time{}
	d.ownership.unverified = now
	d.spans.endRun(nil)
	if d.abort != nil {
		d.abort(nil)
	}
	d.signal, d.abort = nil, nil
}

// drop discards what has arrived: its deliveries fail. The caller holds the lock.
func (d *Driver) drop() {
	for _, a := range d.arrivals {
		a.finish()
	}
	d.arrivals = nil
}

// GiveUp has the goroutine that drives stop where it is: the session is lost, and what a model still says goes nowhere.
func (d *Driver) GiveUp(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil {
		d.broken = cause
	}
	if d.quit != nil {
		d.quit()
	} else if d.driving == nil {
		d.drop()
	}
}

// start runs f in a background goroutine. A panic of it is logged.
func (d *Driver) start(what string, f func()) {
	d.tasks.Go(func() { d.logPanic(panics.Guard(what, func() error { f(); return nil })) })
}

// Wait returns once no goroutine is left that the driver has started, or with ctx's error. They end by themselves,
// [Driver.Handle] and [Driver.Drive] having returned: the last of them are requests of fifteen seconds at most.
func (d *Driver) Wait(ctx context.Context) error { return background.Wait(ctx, &d.tasks) }

// after makes a request in the background, once those before it are done. The caller holds the lock.
func (d *Driver) after(r *background.Requests, what string, f func(ctx context.Context)) {
	r.Add(func(f func()) { d.start(what, f) }, f)
}
