// Package driver carries out the steps that package loop chooses, for one session. A [Driver] works on a [Log], a
// [Model] and [Tools]. Package host has one driver for each session of a runner; package agent has one for a
// conversation in this process.
//
// The package declares the small interfaces that it needs. Packages eventstore, bus and tools implement them, and so
// can any program.
//
// # Duties
//
// A driver has these duties. They are those of package loop, for this driver:
//
//  1. Choose a step and append its event in one critical section, so that no other event comes between the two.
//  2. Give each event a time and a source, append it to the log, and only then apply it to the state.
//  3. Call [Log].Flush before anything that others can see of an event: before a tool call is dispatched, a command is
//     acknowledged, a command is stored in the inbox of another session, or a delta of a reply is published. A model
//     call does not wait for the log.
//  4. If the process may have been suspended, verify that it still owns the session before a model or a tool is called
//     or a command for another session is stored: the log fences appends, but not these effects.
//  5. Write one [schemas.RunResumed] if the state that driving begins with shows that work was interrupted.
//  6. Drive until the session is at rest, and keep the message that woke it unacknowledged for that long. The
//     goroutine that delivers the message drives, unless another one does ([Driver.Handle]). There is no other
//     scheduler. A session at rest has no goroutine and no timer in this process.
//
// # Guarantees
//
// A command that the log knows changes nothing. The first result of a tool call is its result; later ones change
// nothing. A call that an earlier process may have dispatched is dispatched with again set, so that [Tools] can look
// for it first. A crash at any point loses nothing that the log has: a driver on the state that the log folds to
// continues the session, and whatever a driver remembers besides its state is a cache.
//
// # Failures
//
// After the log has refused an event, the driver stops without another effect and must be given up, because its state
// may be ahead of the log. The error is a [LostError]; it wraps [ErrConflict] where another writer owns the session.
// The next process that loads the session folds the log and continues. The same holds after a panic. Any other error
// ends one delivery, whose message must be redelivered; the driver then continues as if it had loaded its state from
// the log ([Lost] tells the two kinds apart).
//
// An error or panic of the model's stream or of a hook ends the run with a failure message. An error, panic or timeout
// of a tool becomes the call's error result. Neither ends the process.
//
// # Behaviour
//
// Recorded scenarios of the reference implementation ("pi"), in the testdata of package agent, fix what happens in each
// situation, to the event. The differences are intended: a reply cut off by its output limit has none of its calls
// executed, agent_end names the reason why the run ended, and on a bus an abort ends the run without another model
// call.
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
	"github.com/loopbus/loopbus/loop/internal/commands"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// nonceLength is the number of characters of a nonce: 16 of five bits each are 80 bits, too many to guess.
const nonceLength = 16

// ErrStopped is the cause to give up a driver with when its process stops: the run does not end, and another process
// continues it. It wraps [context.Canceled], so that it does not count as a failure.
var ErrStopped = fmt.Errorf("driver stopped: %w", context.Canceled)

// Driver carries out the steps of one session. One goroutine at a time drives it, in [Driver.Handle] or [Driver.Drive].
// All methods may be called concurrently.
type Driver struct {
	o       Options
	tools   Tools
	session string

	mu       sync.Mutex
	state    *loop.State
	loaded   uint64             // sequence of the state that driving began with: calls up to it may have been dispatched
	resumed  bool               // [Driver.resume] has run, or there was nothing to resume
	waited   bool               // the run was at rest when driving began
	driving  chan struct{}      // closed when the goroutine that drives stops; nil while none drives
	broken   error              // why the driver was given up; nil if it was not
	quit     context.CancelFunc // stops the goroutine that drives
	arrivals []arrival
	recorded []arrival       // arrivals in the log whose deliveries end with the next send
	arrived  chan struct{}   // has a token when arrivals or an abort wait
	signal   context.Context // abort signal of the run under way, nil for none
	abort    context.CancelFunc

	ownership ownership
	spans     spans
	accepting string         // trace context of the command being accepted
	older     commands.Index // of the log, read when a command comes that the state may have forgotten

	tasks sync.WaitGroup // background goroutines; the one that drives is not among them

	// Only the goroutine that drives uses these:
	begun     map[schemas.CallKey]*begunCall
	steered   uint64 // sequence at which GetSteeringMessages was last called
	followed  uint64 // the same for GetFollowUpMessages
	stopped   uint64 // the same for ShouldStopAfterTurn
	screened  uint64 // sequence at which no input waited for the input hook
	failing   bool   // a failure message is being written: a listener that fails at it ends nothing more
	deadline  background.Requests
	stopClock func() bool         // stops the clock's timer of the deadline
	counting  background.Requests // adds what replies used to the budget of their profile
	recounted bool                // [Driver.recount] has run
	wakesAt   time.Time           // when the retry timer that was set last fires
	limited   schemas.CallKey     // for whose limit the timer of approvals was set last
	fired     int64               // the time of the latest retry timer that has fired, in ms since the epoch
	grace     chan struct{}       // closed when cancelled tools have had their time; nil before they were cancelled
}

// New returns the driver of a session. It takes ownership of the state, which is the fold of o.Log, or new(loop.State)
// with its Session set.
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
		o: o, tools: o.Tools, session: state.Session, state: state, spans: noSpans,
		arrived: make(chan struct{}, 1), begun: make(map[schemas.CallKey]*begunCall),
		stopClock: func() bool { return false },
	}
	d.markLoaded()
	if !o.Opened.IsZero() {
		d.ownership.observe(o.Opened)
	}
	if o.Execute != nil {
		d.tools = localTools{d}
	}
	return d
}

// local reports whether this process executes the tool calls.
func (d *Driver) local() bool { return d.o.Execute != nil }

// View calls f with the state. f must not change the state, keep it, or call the driver.
func (d *Driver) View(f func(s *loop.State)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(d.state)
}

// Abort cancels the run under way without a command, for a run in memory. The queues stay as they are.
func (d *Driver) Abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.abort != nil {
		d.abort()
	}
}

// abortWhile cancels the run under way if the given driving has not ended.
func (d *Driver) abortWhile(driving chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.driving == driving && d.abort != nil {
		d.abort()
	}
}

// wake wakes the goroutine that drives if it waits.
func (d *Driver) wake() {
	select {
	case d.arrived <- struct{}{}:
	default:
	}
}

// Drive carries out steps until the session is at rest, and then returns nil. It returns an error if ctx is done, a
// step fails or the log refuses an event. After an error that is [Lost] the driver must be given up; after any other,
// the next Drive continues where this one stopped. Drive returns nil at once if another goroutine drives.
func (d *Driver) Drive(ctx context.Context) error {
	d.mu.Lock()
	_, mine := d.begin()
	d.mu.Unlock()
	if !mine {
		return nil
	}
	return d.drive(ctx)
}

// Run is [Driver.Drive] for a run in memory. The context is the abort signal of the run that is about to start: when it
// is done the run is aborted, which is stored like any other end.
func (d *Driver) Run(ctx context.Context) error {
	d.mu.Lock()
	d.signal, d.abort = context.WithCancel(ctx)
	d.mu.Unlock()
	return d.Drive(context.WithoutCancel(ctx))
}

// stop ends driving because of err. If the session is not lost, the next driving begins as it would in another process:
// it closes in the log what was interrupted, takes calls as possibly dispatched, and verifies ownership.
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
		d.dropArrivals()
		return
	}
	d.markLoaded()
	d.forgetCalls(spanLeft)
	d.wakesAt = time.Time{}
	d.ownership.unverified = now
	d.spans.endRun(nil)
	d.dropSignal()
}

// dropArrivals discards what has arrived, so that its deliveries fail. The caller holds the lock.
func (d *Driver) dropArrivals() {
	for _, a := range d.arrivals {
		a.finish()
	}
	d.arrivals = nil
}

// GiveUp stops the goroutine that drives, because the session is lost or the process stops. Every later delivery fails
// with cause. The output of a model call under way is discarded.
func (d *Driver) GiveUp(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil {
		d.broken = cause
	}
	if d.quit != nil {
		d.quit()
	} else if d.driving == nil {
		d.dropArrivals()
	}
}

// start runs f in a background goroutine and logs a panic of it.
func (d *Driver) start(what string, f func()) {
	d.tasks.Go(func() { d.logPanic(panics.Guard(what, func() error { f(); return nil })) })
}

// Wait returns nil once all goroutines that the driver has started have ended, or ctx's error before. They end by
// themselves after [Driver.Handle] and [Driver.Drive] have returned; the last are requests of at most fifteen seconds.
func (d *Driver) Wait(ctx context.Context) error { return background.Wait(ctx, &d.tasks) }

// inBackground makes a request in the background after those of r before it. The caller holds the lock.
func (d *Driver) inBackground(r *background.Requests, what string, f func(ctx context.Context)) {
	r.Add(func(f func()) { d.start(what, f) }, f)
}
