package driver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// HostOptions are what a [Host] works with. Open, Model, Tools and Toolbox are required.
type HostOptions struct {
	Open    OpenLog
	Model   Model
	Tools   Tools
	Toolbox Toolbox
	Live    Live
	Timers  Timers
	Clock   Clock
	Hooks   Hooks
	Tracer  Tracer
	Logger  *slog.Logger
	Source  string // CloudEvents source of the events: /loopbus/runner/<id>

	// Defaults of every run, where the session has no setting of its own. Tools come from the toolbox.
	Defaults schemas.RunConfig
	// Pipeline puts the tools of a run together; nil takes those of the session's workspace that set_tools has chosen.
	Pipeline func(p schemas.ToolPolicy, announced []schemas.ToolDefinition) ([]schemas.ToolDefinition, []schemas.ToolLayer)
	// Policy is what the pipeline goes by where neither session nor profile says anything.
	Policy schemas.ToolPolicy
	// Profiles are the named agents that sessions may follow; nil has none. Profile is that of sessions that name none.
	Profiles Profiles
	Profile  string
	// Services are asked what the hooks name; nil cannot ask, so that every call that needs an answer is blocked.
	Services Services
	// Budgets count what profiles use; nil counts nothing.
	Budgets Budgets
	// CheckModel says whether a model can be served; nil takes every one.
	CheckModel func(m schemas.ModelRef) error
	// Retryable says whether asking again may help after this failed reply; nil never does. How often is for
	// Defaults.Retry to say.
	Retryable func(reply *schemas.AssistantMessage) bool
	// OnEvent is told of every event of every session, in order per session. It must not block.
	OnEvent func(e schemas.Event)

	IdleTimeout time.Duration // see [Options]
	AbortGrace  time.Duration // 0: 10 s
	// CallsInQueue is how many calls of one tool a session has with its workers at once, so that a session with a thousand
	// calls does not starve the others. 0: [DefaultCallsInQueue]; less than 0: no limit.
	CallsInQueue int
	// SnapshotEvery is after how many events a session at rest is saved, at least; long sessions are saved when their
	// log has grown by a quarter, so that the work stays in proportion to the log. 0: 256.
	SnapshotEvery uint64
	// CacheSize is how many sessions at rest are kept in memory, CacheAge for how long. They cost nothing but memory;
	// a stale one is noticed by the log. 0: 1024 and one minute.
	CacheSize int
	CacheAge  time.Duration
	// FlushTimeout bounds the storing of what was decided when the host is told to stop. 0: 2 s.
	FlushTimeout time.Duration
}

// DefaultCallsInQueue is what keeps the workers of a small deployment busy with one session's calls.
const DefaultCallsInQueue = 16

// Host drives any number of sessions, each from its log: it takes up a session when a message for it is delivered and
// gives it up when it has been at rest for a while. It starts no goroutine; the one that delivers the message that wakes
// a session drives it until it is at rest again. All methods may be called concurrently.
type Host struct {
	o HostOptions

	mu    sync.Mutex
	seats map[string]*seat
	rest  []*seat // at rest, oldest first
}

// NewHost returns a host that holds no session yet.
func NewHost(o HostOptions) *Host {
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.AbortGrace = orDefault(o.AbortGrace, 10*time.Second)
	o.CallsInQueue = orDefault(o.CallsInQueue, DefaultCallsInQueue)
	o.SnapshotEvery = orDefault(o.SnapshotEvery, 256)
	o.CacheSize = orDefault(o.CacheSize, 1024)
	o.CacheAge = orDefault(o.CacheAge, time.Minute)
	o.FlushTimeout = orDefault(o.FlushTimeout, 2*time.Second)
	return &Host{o: o, seats: make(map[string]*seat)}
}

func orDefault[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// Deliver takes in one message of a session's inbox, as [Driver.Handle] does. An error means that it has to be
// delivered again, here or elsewhere; it wraps [ErrConflict] if another process extends the session.
func (h *Host) Deliver(ctx context.Context, c schemas.Command, entered func()) error {
	if r := h.refuse(ctx, c); r != nil {
		return h.Reject(ctx, c.Session, *r)
	}
	if b, ok := c.Data.(*schemas.Branch); ok {
		return h.branch(ctx, c, b)
	}
	var in bool
	enter := func() {
		if in = true; entered != nil {
			entered()
		}
	}
	return h.with(ctx, c.Session, func() bool { return in }, func(d *Driver) error { return d.Handle(ctx, c, enter) })
}

// Reject puts the refusal of a message that could not be read into the session's log. It changes nothing if the log
// knows the command already; but a command that was taken and is given up after too many deliveries would leave its run
// with nobody to wake it, so that run is ended.
func (h *Host) Reject(ctx context.Context, session string, r schemas.CommandRejected) error {
	if r.Code == schemas.RejectDelivery {
		c := schemas.Command{ID: "given-up/" + r.CommandID, Session: session, Data: &schemas.Abort{Reason: r.Reason}}
		err := h.with(ctx, session, alone, func(d *Driver) error {
			var stuck bool
			d.View(func(s *loop.State) { stuck = s.Taken[r.CommandID] && s.Run != nil })
			if !stuck {
				return nil
			}
			return d.Handle(ctx, c, nil)
		})
		if err != nil {
			return err
		}
	}
	return h.with(ctx, session, alone, func(d *Driver) error {
		if err := d.reject(ctx, r); err != nil {
			return err
		}
		return d.o.Log.Flush(ctx)
	})
}

// Keeps reports whether a session that this host is driving is known to be still its own: at this moment nobody else has
// extended it.
func (h *Host) Keeps(ctx context.Context, session string) bool {
	h.mu.Lock()
	s := h.seats[session]
	h.mu.Unlock()
	if s == nil {
		return false
	}
	select {
	case <-s.loaded:
	case <-ctx.Done():
		return false
	}
	return s.err == nil && s.log.Confirm(ctx, h.o.Clock.Now()) == nil
}

// alone says of what lets no other message in while it is at work that none has come in.
func alone() bool { return false }

// with calls f with the session's driver. A session kept from before may be behind the log by now; if the very first
// event shows that, it is taken up anew and f called again: unless messages may have come in behind this one, which must not
// pass it.
func (h *Host) with(ctx context.Context, session string, followed func() bool, f func(d *Driver) error) error {
	for {
		s, fresh, err := h.acquire(ctx, session)
		if err != nil {
			return err
		}
		begun, before := h.o.Clock.Now(), s.seq()
		err = f(s.driver)
		if err == nil && s.seq() == before {
			// Nothing was to be done, says a state that may be old: a message settled on that word alone could be lost.
			err = s.log.Confirm(ctx, begun)
		}
		stale := !fresh && behind(err, before) && ctx.Err() == nil
		if stale {
			h.tell(s) // nothing is lost
		}
		if err = h.release(ctx, s, err); !stale || followed() {
			return err
		}
	}
}

func behind(err error, seq uint64) bool {
	var conflict *schemas.ConflictError
	return errors.As(err, &conflict) && conflict.Seq == seq+1
}
