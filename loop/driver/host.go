package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	// CheckModel says whether a model can be served; nil takes every one.
	CheckModel func(m schemas.ModelRef) error
	// OnEvent is told of every event of every session, in order per session. It must not block.
	OnEvent func(e schemas.Event)

	IdleTimeout time.Duration // see [Options]
	AbortGrace  time.Duration // 0: 10 s
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
	enter := sync.OnceFunc(func() {
		if entered != nil {
			entered()
		}
	})
	defer enter()
	if r := h.refuse(ctx, c); r != nil {
		return h.Reject(ctx, c.Session, *r)
	}
	return h.with(ctx, c.Session, func(d *Driver) error { return d.Handle(ctx, c, enter) })
}

// Reject puts the refusal of a message that could not be read into the session's log. It changes nothing if the log
// knows the command already; but a command that was taken and is given up after too many deliveries would leave its run
// with nobody to wake it, so that run is ended.
func (h *Host) Reject(ctx context.Context, session string, r schemas.CommandRejected) error {
	if r.Code == schemas.RejectDelivery {
		c := schemas.Command{ID: "given-up/" + r.CommandID, Session: session, Data: &schemas.Abort{Reason: r.Reason}}
		err := h.with(ctx, session, func(d *Driver) error {
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
	return h.with(ctx, session, func(d *Driver) error {
		if err := d.reject(ctx, r); err != nil {
			return err
		}
		return d.o.Log.Flush(ctx)
	})
}

// with calls f with the session's driver. A session kept from before may be behind the log by now; if the very first
// event shows that, it is taken up anew and f called again.
func (h *Host) with(ctx context.Context, session string, f func(d *Driver) error) error {
	for {
		s, fresh, err := h.acquire(ctx, session)
		if err != nil {
			return err
		}
		var before uint64
		s.driver.View(func(st *loop.State) { before = st.Seq })
		err = f(s.driver)
		err = h.release(ctx, s, err)
		if fresh || !behind(err, before) || ctx.Err() != nil {
			return err
		}
	}
}

func behind(err error, seq uint64) bool {
	var conflict *schemas.ConflictError
	return errors.As(err, &conflict) && conflict.Seq == seq+1
}

// refuse says why a well-formed command cannot be carried out here, or nil.
func (h *Host) refuse(ctx context.Context, c schemas.Command) *schemas.CommandRejected {
	r := &schemas.CommandRejected{CommandID: c.ID, Kind: c.Data.CommandKind()}
	switch d := c.Data.(type) {
	case *schemas.SetModel:
		if h.o.CheckModel == nil {
			return nil
		}
		if err := h.o.CheckModel(d.Model); err != nil {
			r.Code, r.Reason = schemas.RejectNoModel, err.Error()
			return r
		}
	case *schemas.SetTools:
		defs, err := h.o.Toolbox.Definitions(ctx)
		if err != nil {
			return nil // not known now; the next run will tell
		}
		for _, name := range d.Tools {
			if !slices.ContainsFunc(defs, func(t schemas.ToolDefinition) bool { return t.Name == name }) {
				r.Code, r.Reason = schemas.RejectNoTool, fmt.Sprintf("no worker serves tool %q", name)
				return r
			}
		}
	}
	return nil
}

// configure resolves what a run is driven with: the defaults, the session's settings over them, and the tools there are.
func (h *Host) configure(ctx context.Context, s *loop.State) (schemas.RunConfig, error) {
	config, set := h.o.Defaults, s.Settings
	if set.Model != nil {
		config.Model = *set.Model
	}
	if set.ThinkingLevel != "" {
		config.ThinkingLevel = set.ThinkingLevel
	}
	if set.SystemPrompt != nil {
		config.SystemPrompt = *set.SystemPrompt
	}
	if set.ToolExecution != "" {
		config.ToolExecution = set.ToolExecution
	}
	defs, err := h.o.Toolbox.Definitions(ctx)
	if err != nil {
		return config, fmt.Errorf("tools of session %s: %w", s.Session, err)
	}
	config.Tools = chosen(defs, set)
	return config, nil
}

func chosen(defs []schemas.ToolDefinition, set loop.Settings) []schemas.ToolDefinition {
	if !set.ToolsSet || set.Tools == nil {
		return defs
	}
	var out []schemas.ToolDefinition
	for _, name := range set.Tools {
		if i := slices.IndexFunc(defs, func(t schemas.ToolDefinition) bool { return t.Name == name }); i >= 0 {
			out = append(out, defs[i])
		}
	}
	return out
}
