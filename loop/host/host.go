package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/background"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// Options are what a [Host] works with. Open, Toolbox, Model and Tools are required. A zero AbortGrace is ten seconds,
// a zero CallWindow [DefaultCallWindow]; a CallWindow below zero is no limit.
type Options struct {
	driver.Deps
	Open    OpenLog
	Toolbox Toolbox

	// Defaults of every run, where the session has no setting of its own. Tools come from the toolbox.
	Defaults schemas.RunConfig
	// Pipeline puts the tools of a run together; nil uses those of the session's workspace that set_tools has chosen.
	Pipeline func(p schemas.ToolPolicy, announced []schemas.ToolDefinition) ([]schemas.ToolDefinition, []schemas.ToolLayer)
	// Policy is what the pipeline goes by where neither session nor profile says anything.
	Policy schemas.ToolPolicy
	// Profiles are the named agents that sessions may follow; nil has none. Profile is that of sessions that name none.
	Profiles Profiles
	Profile  string
	// Resources are what workspaces have for prompts; nil has nothing.
	Resources Resources
	// Window returns how many tokens a model takes, 0 where that is not known; nil knows none. Without it no context is
	// compacted before a model refuses it.
	Window func(m schemas.ModelRef) int64
	// CheckModel says whether a model can be served; nil accepts every model.
	CheckModel func(m schemas.ModelRef) error

	// SnapshotEvery is after how many events a session at rest is saved, at least; one with a long context is saved when
	// its log has grown by an event for each message of it, so that the work stays in proportion to the log. 0: 256.
	SnapshotEvery uint64
	// CacheSize is how many sessions at rest stay in memory, CacheAge for how long. They cost nothing but memory;
	// a stale one is noticed by the log. 0: 1024 and one minute.
	CacheSize int
	CacheAge  time.Duration
	// SubagentCheck is how often a session that waits for sub-agents sees whether they will answer. 0: 15 minutes.
	SubagentCheck time.Duration
	// FlushTimeout bounds the storing of what was decided when a delivery is stopped. 0: 2 s.
	FlushTimeout time.Duration
}

// DefaultCallWindow is enough to keep the workers of a small deployment busy with one session's calls.
const DefaultCallWindow = 16

// Host drives any number of sessions, each from its log: it loads a session when a message for it is delivered and
// evicts it when it has been at rest for a while. The goroutine that delivers the message that wakes a session drives
// it until it is at rest again. All methods may be called concurrently.
//
// An error of one delivery gives up that delivery: its message is to be redelivered. A session whose log is lost,
// or in whose driver something panicked, is given up with all its deliveries and loaded anew from its log by the next
// one.
type Host struct {
	o    Options
	work sync.WaitGroup // deliveries under way
	left sync.WaitGroup // what drivers have begun that are given up

	mu      sync.Mutex
	entries map[string]*entry
	rest    []*entry // at rest, oldest first
	closed  bool
}

// ErrClosed is returned for what is delivered to a host after [Host.Close].
var ErrClosed = errors.New("host closed")

// New returns a host that has loaded no session yet.
func New(o Options) *Host {
	if o.Clock == nil {
		o.Clock = driver.SystemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.AbortGrace = cmp.Or(o.AbortGrace, 10*time.Second)
	o.CallWindow = cmp.Or(o.CallWindow, DefaultCallWindow)
	o.SnapshotEvery = cmp.Or(o.SnapshotEvery, 256)
	o.CacheSize = cmp.Or(o.CacheSize, 1024)
	o.CacheAge = cmp.Or(o.CacheAge, time.Minute)
	o.SubagentCheck = cmp.Or(o.SubagentCheck, 15*time.Minute)
	o.FlushTimeout = cmp.Or(o.FlushTimeout, 2*time.Second)
	return &Host{o: o, entries: make(map[string]*entry)}
}

// Deliver handles one message of a session's inbox, as [driver.Driver.Handle] does. An error means that it has to be
// redelivered, here or elsewhere; it wraps [driver.ErrConflict] if another process extends the session.
func (h *Host) Deliver(ctx context.Context, c schemas.Command, entered func()) error {
	return h.do(c.Session, func() error { return h.deliver(ctx, c, entered) })
}

// do calls f unless the host is closed. A panic is f's error.
func (h *Host) do(session string, f func() error) (err error) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return fmt.Errorf("deliver to session %s: %w", session, ErrClosed)
	}
	h.work.Add(1)
	h.mu.Unlock()
	defer h.work.Done()
	var failed error
	if panicked := panics.Guard("delivery", func() error { failed = f(); return nil }); panicked != nil {
		panics.Log(h.o.Logger, session, panicked)
		return panicked
	}
	return failed
}

func (h *Host) deliver(ctx context.Context, c schemas.Command, entered func()) error {
	if r := h.refuse(ctx, c); r != nil {
		return h.reject(ctx, c.Session, *r)
	}
	switch d := c.Data.(type) {
	case *schemas.Branch:
		return h.branch(ctx, c, d)
	case *schemas.SubagentPrompt:
		return h.subagentPrompt(ctx, c, d, entered)
	case *schemas.SubagentAbort:
		return h.subagentAbort(ctx, c, d, entered)
	case *schemas.Timer:
		if d.Name == schemas.TimerSubagents {
			return h.lookAfter(ctx, c, entered)
		}
	}
	return h.drive(ctx, c, entered)
}

// drive delivers a command to its session's driver.
func (h *Host) drive(ctx context.Context, c schemas.Command, entered func()) error {
	var in bool
	enter := func() {
		if in = true; entered != nil {
			entered()
		}
	}
	return h.with(ctx, c.Session, func() bool { return in },
		func(d *driver.Driver) error { return d.Handle(ctx, c, enter) })
}

// Reject puts the refusal of a message that could not be read into the session's log. It changes nothing if the log
// knows the command already; but a command that is in the log and is given up after too many deliveries would leave its
// run with nobody to wake it, so that run is ended.
func (h *Host) Reject(ctx context.Context, session string, r schemas.CommandRejected) error {
	return h.do(session, func() error { return h.reject(ctx, session, r) })
}

func (h *Host) reject(ctx context.Context, session string, r schemas.CommandRejected) error {
	if r.Code == schemas.RejectDelivery {
		c := schemas.Command{ID: "given-up/" + r.CommandID, Session: session, Data: &schemas.Abort{Reason: r.Reason}}
		err := h.with(ctx, session, alone, func(d *driver.Driver) error {
			var stuck bool
			d.View(func(s *loop.State) { stuck = s.Known.Has(r.CommandID) && s.Run != nil })
			if !stuck {
				return nil
			}
			return d.Handle(ctx, c, nil)
		})
		if err != nil {
			return err
		}
		if err := h.unprocessed(ctx, session, r); err != nil {
			return err
		}
	}
	return h.with(ctx, session, alone, func(d *driver.Driver) error {
		if err := d.Reject(ctx, r); err != nil {
			return err
		}
		return d.Flush(ctx)
	})
}

// Close accepts no more, waits for the deliveries under way and for the background work of drivers,
// and closes the logs. If ctx ends first, the drivers are stopped where they are, and the error says so; what they have
// begun and does not end is left behind.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	err := background.Wait(ctx, &h.work)
	h.mu.Lock()
	left := slices.Collect(maps.Values(h.entries))
	clear(h.entries) // closed once, however often the host is
	h.mu.Unlock()
	for _, e := range left {
		select {
		case <-e.loaded:
			if err != nil && e.driver != nil {
				e.driver.GiveUp(driver.ErrStopped)
			}
			h.close(e)
		default: // its log is still being read: ctx has ended
		}
	}
	if err == nil {
		err = background.Wait(ctx, &h.left)
	}
	if err != nil {
		return fmt.Errorf("close host with %d sessions: %w", len(left), err)
	}
	return nil
}

// errNotLoaded is the answer of [Host.Owns] for a session that the host is not driving.
var errNotLoaded = errors.New("the session is not loaded")

// Owns returns nil if the host still owns a session that it is driving: at this moment no other process has extended
// the session. The error is a [schemas.ConflictError] if one has; after any other nothing is known.
func (h *Host) Owns(ctx context.Context, session string) error {
	h.mu.Lock()
	e := h.entries[session]
	h.mu.Unlock()
	if e == nil {
		return errNotLoaded
	}
	select {
	case <-e.loaded:
	case <-ctx.Done():
		return ctx.Err()
	}
	if e.err != nil {
		return e.err
	}
	return e.log.Confirm(ctx, h.o.Clock.Now())
}

// alone is the answer of a function that lets no other message in while it works: none has come in.
func alone() bool { return false }

// with calls f with the session's driver. A session loaded before may be behind the log by now; if the very first
// event shows that, it is loaded anew and f called again: unless messages may have come in behind this one, which
// must not pass it, or the log has become shorter. Then the session was deleted, maybe with this message: whoever
// delivers it again looks.
func (h *Host) with(ctx context.Context, session string, followed func() bool, f func(d *driver.Driver) error) error {
	had := uint64(0)
	for {
		e, fresh, err := h.acquire(ctx, session)
		if err != nil {
			return err
		}
		if seq := e.seq(); seq < had {
			h.leave(e, false)
			return fmt.Errorf("the log was deleted: %w", &schemas.ConflictError{Session: session, Seq: seq + 1})
		}
		had = max(had, e.seq())
		stale, err := h.use(ctx, e, fresh, f)
		if !stale || followed() {
			return err
		}
	}
}

// use calls f with an entry's driver and releases the entry. stale says that one loaded before was behind the log.
func (h *Host) use(ctx context.Context, e *entry, fresh bool, f func(d *driver.Driver) error) (stale bool, err error) {
	err = &panics.Error{What: "delivery"} // unless f returns
	defer func() { h.release(ctx, e, err) }()
	begun, before := h.o.Clock.Now(), e.seq()
	if err = f(e.driver); err == nil {
		h.lookAgain(ctx, e)
	}
	if err == nil {
		// Maybe nothing was to be done, says a state that may be old: a message acknowledged because of it alone could be
		// lost. What another delivery has appended meanwhile proves nothing before it is stored.
		err = e.log.Confirm(ctx, begun)
	}
	if stale = !fresh && behind(err, before) && ctx.Err() == nil; stale {
		h.firstLoss(e) // nothing is lost
	}
	return stale, err
}

func behind(err error, seq uint64) bool {
	var conflict *schemas.ConflictError
	return errors.As(err, &conflict) && conflict.Seq == seq+1
}
