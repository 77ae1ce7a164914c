package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/live"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/bus/sweep"
	"github.com/loopbus/loopbus/bus/watchdog"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas/turns"
	"github.com/loopbus/loopbus/tools/pipeline"
)

const (
	// maxDeliver is the number of deliveries after which a command is rejected. Every restart of a runner may use one
	// up, so it is far more than needed for a command that kills its runner, and still finite.
	maxDeliver = 50
	// rejectTimeout is the time for rejecting such a command, in addition to the time that tools get to stop when its
	// run is aborted.
	rejectTimeout = 20 * time.Second
	// defaultStopTimeout limits how long sessions may take to close on shutdown, unless the inbox's option sets it.
	defaultStopTimeout = 10 * time.Second
)

// Options configures a runner. ID and Host.Model are required.
type Options struct {
	ID      string // unique id of the runner
	Streams streams.Options
	Store   eventstore.Options // Subjects and Logger are filled in
	Inbox   inbox.Options      // RunnerID, Logger and Registerer are filled in, and limits that are zero
	Updates live.Options
	Index   index.Options // intervals of writing and auditing; New fills in the rest
	// Host configures how sessions are driven. New fills in what depends on the bus: log, toolbox, profiles,
	// dispatcher, updates, timers, hooks, budgets, and the pipeline of tools.
	Host host.Options
	// Change, if not nil, modifies Host after New has filled it in, for tests.
	Change func(*host.Options)
	// Handler, if not nil, wraps the host as the handler of the inbox, for tests.
	Handler func(inbox.Handler) inbox.Handler
	// Serve is the model that answers model calls of other runners; nil serves none.
	Serve models.Model
	// Retention limits how long sessions are kept, by profile; see [retention.KeeperOptions]. Nil keeps all.
	Retention map[string]retention.Rule
	// RetentionInterval is the time between two rounds of deletion; 0 means one minute.
	RetentionInterval time.Duration
	// Tools are the tools that must be announced before the runner is ready.
	Tools []string
	// Unserved is how long a tool call waits while no worker announces its tool; 0 waits for ever.
	Unserved time.Duration
	Watchdog watchdog.Options // times of the search for lost messages; New fills in the rest

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // for metrics; nil registers none
}

// Runner is a runner on a connection. Its fields may be used but not changed. Its methods are safe for concurrent
// use.
type Runner struct {
	Conn      *bus.Conn
	Store     *eventstore.Store
	Toolbox   *registry.Toolbox
	Profiles  *registry.Profiles
	Resources *registry.Resources
	Index     *index.Index
	Deleter   *retention.Deleter
	Host      *host.Host
	Inbox     *inbox.Inbox

	o       Options
	metrics *metrics       // nil without Registerer
	models  *models.Server // nil without Serve
	ready   chan struct{}
	waited  atomic.Int64 // when [Runner.warnRestoring] has logged, in seconds since the epoch
}

// New creates or upgrades the streams and wires a runner, which does nothing until [Runner.Run]. The caller keeps
// ownership of conn, which must outlive the runner, and must close the runner.
func New(ctx context.Context, conn *bus.Conn, o Options) (*Runner, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Store.Subjects, o.Store.Logger, o.Updates.Logger = conn.Subjects(), o.Logger, o.Logger
	o.Inbox.RunnerID, o.Inbox.Logger = o.ID, o.Logger
	o.Inbox.Registerer = cmp.Or(o.Registerer, o.Inbox.Registerer)
	o.Inbox.MaxDeliver = cmp.Or(o.Inbox.MaxDeliver, maxDeliver)
	o.Inbox.RejectTimeout = cmp.Or(o.Inbox.RejectTimeout, o.Host.AbortGrace+rejectTimeout)
	if err := streams.Setup(ctx, conn, o.Streams); err != nil {
		return nil, err
	}
	o.Host.Loads = turns.NewLoads()
	r := &Runner{Conn: conn, o: o, ready: make(chan struct{})}
	o.Inbox.Search = r.search
	o.Inbox.Outcome = r.recent
	if o.Registerer != nil {
		r.metrics = newMetrics(o.Registerer, o.Tools)
		r.metrics.begin(o.Host.Defaults, o.Host.Profile, o.Tools)
		o.Store.OnForeign = func(string) { r.metrics.foreign.Inc() }
	}
	var err error
	o.Store.InProgress = func(ctx context.Context, session, id string) (bool, error) {
		return r.Deleter.InProgress(ctx, session, id)
	}
	o.Store.Heal = true
	if r.Store, err = eventstore.New(conn.Events(), o.Store); err != nil {
		return nil, err
	}
	r.Deleter = retention.NewDeleter(conn, retention.Options{Store: r.Store, Logger: o.Logger})
	if r.Inbox, err = inbox.New(conn, o.Inbox); err != nil {
		return nil, err
	}
	r.Index = openIndex(conn, r.Store, o)
	r.Toolbox = registry.NewToolbox(conn, o.Logger)
	r.Profiles = registry.NewProfiles(conn, host.ErrNoProfile, o.Logger)
	r.Resources = registry.NewResources(conn, o.Logger)
	r.Host = host.New(r.hostOptions())
	if o.Registerer != nil {
		r.registerGauges(o.Registerer)
	}
	if o.Serve != nil {
		r.models = models.NewServer(conn, models.ServerOptions{
			Model: o.Serve, StopTimeout: o.Inbox.StopTimeout, Logger: o.Logger,
		})
	}
	return r, nil
}

func (r *Runner) hostOptions() host.Options {
	h := r.o.Host
	if r.metrics != nil {
		h.OnEvent = r.metrics.then(h.OnEvent)
	}
	h.Open = r.open
	h.Outbox = bus.NewOutbox(r.Conn)
	h.CatchUp = r.Toolbox.CatchUp
	h.Toolbox, h.Profiles, h.Resources, h.Pipeline = withAgent{r.Toolbox}, r.Profiles, r.Resources, pipeline.Build
	h.Tools, h.Live = dispatch.New(r.Conn), live.New(r.Conn, r.o.Updates)
	h.Timers, h.Services, h.Budgets = bus.NewTimers(r.Conn), bus.NewHooks(r.Conn), bus.NewBudgets(r.Conn)
	h.Source, h.Logger = "/loopbus/runner/"+r.o.ID, r.o.Logger
	if r.o.Change != nil {
		r.o.Change(&h)
	}
	return h
}

// Run drives the runner's share of the sessions until ctx ends, then releases them (graceful shutdown). It runs the
// functions of beside for the same time; if one of them fails, Run stops and returns its error. Run may be called
// once.
func (r *Runner) Run(ctx context.Context, beside ...func(ctx context.Context) error) error {
	g, serving := errgroup.WithContext(ctx)
	var h inbox.Handler = &stopping{host: r.Host, stop: serving}
	if r.o.Handler != nil {
		h = r.o.Handler(h)
	}
	g.Go(func() error { return r.Inbox.Run(serving, h) })
	g.Go(func() error { r.Profiles.Repair(serving, 0); return nil })
	g.Go(func() error { streams.Keep(serving, r.Conn, r.o.Streams, r.o.Logger); return nil })
	turn := func() bool { return slices.Contains(r.Inbox.Partitions(), 0) } // one runner does what is for all sessions
	sweeper := sweep.New(r.Conn, sweep.Options{Logger: r.o.Logger, Turn: turn})
	g.Go(func() error { sweeper.Run(serving); return nil })
	w := r.o.Watchdog
	w.Sessions, w.Turn, w.Logger = r.pending, turn, r.o.Logger
	g.Go(func() error { watchdog.New(r.Conn, w).Run(serving); return nil })
	if r.models != nil {
		g.Go(func() error { return r.models.Run(serving) })
	}
	if r.o.Unserved > 0 {
		unserved := dispatch.NewUnserved(r.Conn, dispatch.UnservedOptions{
			ID: r.o.ID, After: r.o.Unserved, Toolbox: r.Toolbox, Logger: r.o.Logger,
		})
		g.Go(func() error { unserved.Run(serving); return nil })
	}
	if len(r.o.Retention) > 0 {
		keeper := retention.NewKeeper(retention.KeeperOptions{ID: r.o.ID, Deleter: r.Deleter, Index: r.Index,
			Rules: r.o.Retention, Interval: r.o.RetentionInterval, OnDeleted: r.metrics.deletedFor, Logger: r.o.Logger})
		g.Go(func() error { return keeper.Run(serving) })
	}
	for _, f := range beside {
		g.Go(func() error { return f(serving) })
	}
	g.Go(func() error {
		if r.awaitReady(serving) == nil { // it fails only if the runner stops first
			close(r.ready)
		}
		return nil
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil
	}
	return err
}

// Ready returns a channel that is closed once the runner reads its share of the inbox, its own tools are announced,
// and, if configured, it serves models.
func (r *Runner) Ready() <-chan struct{} { return r.ready }

func (r *Runner) awaitReady(ctx context.Context) error {
	parts := []<-chan struct{}{r.Inbox.Ready()}
	if r.models != nil {
		parts = append(parts, r.models.Ready())
	}
	for _, part := range parts {
		select {
		case <-part:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := r.Toolbox.Wait(ctx, r.o.Tools...); err != nil {
		return fmt.Errorf("tools %v not announced: %w", r.o.Tools, err)
	}
	return nil
}

// Close waits for the background work of sessions and stops following buckets. Call it after [Runner.Run] has
// returned.
func (r *Runner) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(r.o.Inbox.StopTimeout, defaultStopTimeout))
	defer cancel()
	if err := r.Host.Close(ctx); err != nil {
		r.o.Logger.Warn("sessions not closed", "err", err)
	}
	r.Index.Close()
	r.Resources.Close()
	r.Profiles.Close()
	r.Toolbox.Close()
}
