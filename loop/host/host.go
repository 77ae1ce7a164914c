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

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/background"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
)

// Options are the settings of a [Host]. Open, Toolbox, Model and Tools are required. A zero AbortGrace is ten seconds,
// a zero CallWindow is [DefaultCallWindow], and a negative CallWindow is no limit.
type Options struct {
	driver.Deps
	Open    OpenLog
	Toolbox Toolbox
	// CatchUp returns once the toolbox has read everything announced before the call. It is called for runs of sessions
	// that have a channel, whose sender may have announced tools there just before the prompt. Nil does nothing. If it
	// fails, the run gets the tools that are known.
	CatchUp func(ctx context.Context) error

	// Defaults are the configuration of every run where neither profile nor session has a setting. Its Tools are not used:
	// the tools come from the toolbox.
	Defaults schemas.RunConfig
	// Pipeline selects the tools of a run; nil selects those of the session's workspace that set_tools has chosen.
	Pipeline func(p schemas.ToolPolicy, announced []schemas.ToolDefinition) ([]schemas.ToolDefinition, []schemas.ToolLayer)
	// Policy is the policy for the pipeline where neither session nor profile has a setting.
	Policy schemas.ToolPolicy
	// Profiles are the named agents that sessions may follow; nil has none. Profile names the one for sessions that name
	// none.
	Profiles Profiles
	Profile  string
	// Resources are what workspaces provide for prompts; nil provides nothing.
	Resources Resources
	// Window returns the size of a model's context window in tokens, 0 if it is unknown; nil knows none. Without it no
	// context is compacted before a model refuses it.
	Window func(m schemas.ModelRef) int64
	// CheckModel returns an error if a model cannot be served; nil accepts every model.
	CheckModel func(m schemas.ModelRef) error

	// SnapshotEvery is the least number of events between two snapshots of a session at rest. A session with a long
	// context is saved when its log has grown by one event for each message, so that the work is proportional to the log.
	// 0: 256.
	SnapshotEvery uint64
	// CacheSize is how many sessions at rest stay in memory, CacheBytes how much they may take together with those at
	// work, and CacheAge how long they stay. They cost only memory: the log reveals a stale one. 0: 1024, 256 MiB and one
	// minute.
	CacheSize, CacheBytes int
	CacheAge              time.Duration
	// WorkBytes is how much memory sessions may take together while they are at work, as each keeps its context while its
	// model answers: half of it those of up to 256 KiB, a quarter those of up to 1 MiB, another those of up to 4 MiB, and
	// half of it larger ones. Others wait, and are not in memory. Sessions of up to 64 KiB are not counted. As much as a
	// quarter is for sessions that are only loaded to be aborted. 0: 256 MiB.
	WorkBytes int
	// Loads bounds the large logs that are read at once; nil is for this host alone.
	Loads *turns.Loads
	// SubagentCheck is how often a session that waits for sub-agents checks that they can still answer. 0: 15 minutes.
	SubagentCheck time.Duration
}

// flushTimeout bounds the storing of what was decided when a delivery is stopped: SIGTERM must not wait for long.
const flushTimeout = 2 * time.Second

// DefaultCallWindow is enough to keep the workers of a small deployment busy with one session's calls.
const DefaultCallWindow = 16

// Host drives any number of sessions, each from its log. It loads a session when a message for it is delivered, and
// evicts it when it has been at rest for a while. The goroutine that delivers the message that wakes a session drives
// the session until it is at rest again. All methods may be called concurrently.
//
// An error of one delivery fails that delivery only, and its message is redelivered. A session whose log is lost, or in
// whose driver something panicked, is given up with all its deliveries; the next delivery loads it again from its log.
type Host struct {
	o       Options
	work    sync.WaitGroup // deliveries under way
	closing sync.WaitGroup // background work of drivers that are given up
	copies  *turns.Turns[struct{}]
	rooms   *rooms

	mu      sync.Mutex
	entries map[string]*entry
	rest    []*entry // at rest, oldest first
	working int      // bytes of memory of those at work that have room
	needs   needs
	closed  bool
}

// ErrClosed is wrapped by the error of a delivery to a host after [Host.Close].
var ErrClosed = errors.New("host closed")

// New returns a host that has loaded no session.
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
	o.CacheBytes = cmp.Or(o.CacheBytes, 256<<20)
	o.CacheAge = cmp.Or(o.CacheAge, time.Minute)
	o.WorkBytes = cmp.Or(o.WorkBytes, 256<<20)
	o.SubagentCheck = cmp.Or(o.SubagentCheck, 15*time.Minute)
	o.Loads = cmp.Or(o.Loads, turns.NewLoads())
	return &Host{o: o, entries: make(map[string]*entry), copies: turns.New[struct{}](maxCopies),
		rooms: newRooms(o.WorkBytes), needs: needs{}}
}

// Deliver processes one message of a session's inbox, as [driver.Driver.Handle] does. After an error the message must
// be redelivered, to this or another host. The error wraps [driver.ErrConflict] if another process extends the session.
func (h *Host) Deliver(ctx context.Context, c schemas.Command, entered func()) error {
	return h.do(c.Session, func() error { return h.deliver(ctx, c, entered) })
}

// Reject puts the rejection of a message that could not be read into the session's log, unless the log knows the
// command. A known command that was given up after too many deliveries would leave its run with no message to wake it,
// so Reject ends that run.
func (h *Host) Reject(ctx context.Context, session string, r schemas.CommandRejected) error {
	return h.do(session, func() error { return h.reject(ctx, session, r) })
}

// Close accepts no more deliveries, waits for those under way and for the background work of drivers, and closes the
// logs. If ctx ends before, Close stops the drivers where they are and returns an error; background work that goes on
// is not waited for.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	err := background.Wait(ctx, &h.work)
	h.mu.Lock()
	left := slices.Collect(maps.Values(h.entries))
	clear(h.entries) // so that a second Close closes no log again
	h.mu.Unlock()
	for _, e := range left {
		select {
		case <-e.loaded:
			if err != nil && e.driver != nil {
				e.driver.GiveUp(driver.ErrStopped)
			}
			h.close(e)
		default: // its log is still being read, and ctx has ended
		}
	}
	if err == nil {
		err = background.Wait(ctx, &h.closing)
	}
	if err != nil {
		return fmt.Errorf("close host with %d sessions: %w", len(left), err)
	}
	return nil
}

// errNotLoaded is returned by [Host.Owns] for a session that the host does not drive.
var errNotLoaded = errors.New("the session is not loaded")

// Owns returns nil if the host still owns a session that it drives: no other process had extended the session when Owns
// was called. The error is a [schemas.ConflictError] if one has; any other error leaves that open.
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

// Absent reports whether a session has no log. It opens the log and loads nothing. A session that is loaded has one,
// unless it was loaded without any event. If Absent cannot find out, it returns false.
func (h *Host) Absent(ctx context.Context, session string) bool {
	h.mu.Lock()
	e, closed := h.entries[session], h.closed
	h.mu.Unlock()
	if closed || e != nil && !e.empty() {
		return false
	}
	log, err := h.o.Open(ctx, session)
	if errors.Is(err, schemas.ErrConflict) { // opening may have completed the session's deletion
		log, err = h.o.Open(ctx, session)
	}
	if err != nil {
		return false
	}
	defer log.Close()
	l, ok := log.(interface{ Stored() (seq, stream uint64) })
	if !ok {
		return false
	}
	seq, _ := l.Stored()
	return seq == 0
}
