package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/pipeline"
)

const (
	connectTimeout = 10 * time.Second
	// maxDeliver is after how many deliveries a command is given up. Every restart of a runner may cost a session one,
	// so it is far more than a command that kills its runner should get, and far less than for ever.
	maxDeliver = 50
	// rejectTimeout is what it takes to give a command up, beside the time that tools get when its run is aborted.
	rejectTimeout = 20 * time.Second
	// restTime is how long a session may take to come to rest after the run of a one-shot runner.
	restTime = time.Second
)

// service is a runner and what it has started around itself.
type service struct {
	o       *options
	log     *slog.Logger
	server  *bus.Server // nil with --nats
	conn    *bus.Conn
	store   *eventstore.Store
	toolbox *bus.Toolbox
	agents  *bus.Profiles
	metrics *metrics
	inbox   *bus.Inbox
	host    *driver.Host
	models  *bus.ModelServer // nil without --serve-models
	tracing *tracing
	up      chan struct{} // closed once the inbox is read and the runner's own tools are announced
	closers []func()
}

// serve runs until ctx ends and drains.
func serve(ctx context.Context, o *options, log *slog.Logger) error {
	s, err := open(ctx, o, log)
	if err != nil {
		return err
	}
	defer s.close()
	durability, err := bus.DurabilityOf(ctx, s.conn, s.server)
	if err != nil {
		return err
	}
	log.Info("runner starts", "id", o.id, "nats", s.where(), "model", s.o.models.chosen.String(), "tools", o.tools,
		"durability", durability.Text)
	if durability.PageCache {
		log.Warn("one machine's page cache may be all there is of what was acknowledged lately: its loss of power loses that",
			"remedy", "--sync-always for the runner's own server, sync_always in nats-server's configuration, or --replicas 3 on a cluster")
	}
	return s.run(ctx, nil)
}

func (s *service) where() string {
	if s.server != nil {
		return s.server.ClientURL()
	}
	return s.conn.NATS().ConnectedUrlRedacted()
}

// open starts or reaches the server, makes the streams, and puts the parts together.
func open(ctx context.Context, o *options, log *slog.Logger) (*service, error) {
	s := &service{o: o, log: log, metrics: newMetrics(), up: make(chan struct{})}
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *service) open(ctx context.Context) (err error) {
	if err := s.connect(ctx); err != nil {
		return err
	}
	setup := bus.StreamOptions{Partitions: s.o.partitions, Replicas: s.o.replicas}
	if err := bus.Setup(ctx, s.conn, setup); err != nil {
		return err
	}
	if s.tracing, err = newTracing(ctx, s.o); err != nil {
		return err
	}
	s.closers = append(s.closers, s.tracing.close)
	return s.assemble()
}

func (s *service) connect(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	co := bus.ConnOptions{URL: s.o.nats, Name: "loopbus runner " + s.o.id, Prefix: s.o.prefix, CredsFile: s.o.creds, InboxPrefix: s.o.inboxPrefix, Logger: s.log}
	if s.o.embedded() {
		dir, err := s.storeDir()
		if err != nil {
			return err
		}
		s.server, err = bus.StartServer(bus.ServerOptions{
			Listen: s.o.listen, StoreDir: dir, SyncAlways: s.o.syncAlways, SyncInterval: s.o.syncInterval,
			Name: s.o.id, Logger: s.log,
		})
		if err != nil {
			return err
		}
		s.closers = append(s.closers, s.server.Shutdown)
		co.Server = s.server
	}
	if s.conn, err = bus.Connect(ctx, co); err == nil {
		s.closers = append(s.closers, s.conn.Close)
	}
	return err
}

// storeDir is the server's directory; without one a temporary one that goes with the process.
func (s *service) storeDir() (string, error) {
	if s.o.store != "" {
		return s.o.store, nil
	}
	dir, err := os.MkdirTemp("", "loopbus-")
	if err == nil {
		s.closers = append(s.closers, func() { _ = os.RemoveAll(dir) })
	}
	return dir, err
}

// assemble connects store, host and inbox.
func (s *service) assemble() error {
	store, err := eventstore.New(s.conn.Events(), eventstore.Options{Subjects: s.conn.Subjects(), Logger: s.log})
	if err != nil {
		return err
	}
	s.store = store
	models := newModels(s.o, s.conn)
	if s.o.models.serve {
		s.models = bus.NewModelServer(s.conn, bus.ModelServerOptions{Model: models.own(), StopTimeout: s.o.stopTimeout, Logger: s.log})
	}
	s.toolbox = bus.NewToolbox(s.conn, s.log)
	s.closers = append(s.closers, s.toolbox.Close)
	s.agents = bus.NewProfiles(s.conn, driver.ErrNoProfile, s.log)
	s.closers = append(s.closers, s.agents.Close)
	s.host = driver.NewHost(driver.HostOptions{
		Open: func(ctx context.Context, session string) (driver.SessionLog, error) {
			return store.Open(ctx, session)
		},
		Model: models, CheckModel: models.check, Retryable: models.Retryable, Tools: bus.NewDispatcher(s.conn), Toolbox: s.toolbox,
		Live:   bus.NewUpdates(s.conn, bus.UpdateOptions{Interval: s.o.updateInterval, Logger: s.log}),
		Timers: bus.NewTimers(s.conn), Tracer: s.tracing, Logger: s.log, Source: "/loopbus/runner/" + s.o.id,
		Pipeline: pipeline.Build, Policy: s.o.policy.tools(), Profiles: s.agents, Profile: s.o.policy.profile,
		Services: bus.NewHooks(s.conn), Budgets: bus.NewBudgets(s.conn),
		Defaults: s.o.runDefaults(), OnEvent: s.metrics.event, IdleTimeout: s.o.idleTimeout, AbortGrace: s.o.abortGrace,
		CallsInQueue: s.o.window,
	})
	s.metrics.held(s.host.Held)
	s.inbox, err = bus.NewInbox(s.conn, bus.InboxOptions{
		RunnerID: s.o.id, Takeover: s.o.takeover, MaxDeliver: maxDeliver, RejectTimeout: s.o.abortGrace + rejectTimeout,
		StopTimeout: s.o.stopTimeout, Logger: s.log, Registerer: s.metrics.registry,
	})
	return err
}

func (o *options) runDefaults() schemas.RunConfig {
	return schemas.RunConfig{
		Model: o.models.chosen, ThinkingLevel: schemas.ThinkingLevel(o.models.thinking), SystemPrompt: o.systemPrompt,
		Limits: o.limits.schema(), Retry: o.limits.retry(), Fallbacks: o.models.chosenFallbacks, Workspace: o.workspace,
		Approval: o.policy.approval(), Hooks: o.policy.hookRefs,
	}
}

// run serves until ctx ends, then drains; ready, if not nil, is called once everything is up.
func (s *service) run(ctx context.Context, ready func(ctx context.Context)) error {
	g, serving := errgroup.WithContext(ctx)
	g.Go(func() error { return s.inbox.Run(serving, &stopping{host: s.host, stop: serving}) })
	if len(s.o.tools) > 0 {
		g.Go(func() error { return s.serveTools(serving) })
	}
	if len(s.o.policy.extensions) > 0 {
		g.Go(func() error { return s.serveExtensions(serving) })
	}
	if s.models != nil {
		g.Go(func() error { return s.models.Run(serving) })
	}
	if s.o.http != "off" {
		g.Go(func() error { return s.serveHTTP(serving) })
	}
	g.Go(func() error { return s.announce(serving) })
	if s.o.unservedAfter > 0 {
		unserved := bus.NewUnserved(s.conn, bus.UnservedOptions{
			ID: s.o.id, After: s.o.unservedAfter, Toolbox: s.toolbox, Logger: s.log,
		})
		g.Go(func() error { unserved.Run(serving); return nil })
	}
	g.Go(func() error {
		if err := s.awaitReady(serving); err != nil {
			return nil // stopped before
		}
		close(s.up)
		if ready != nil {
			ready(serving)
		}
		return nil
	})
	err := g.Wait()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil
	}
	s.log.Info("runner stops", "id", s.o.id)
	return err
}

func (s *service) serveTools(ctx context.Context) error {
	return toolserve.Run(ctx, s.conn, toolserve.Options{
		ID: s.o.id, Workspace: s.o.workspace, Tools: s.o.tools, Root: s.o.root, Concurrency: s.o.concurrency, StopTimeout: s.o.stopTimeout,
		Environ: os.Environ(), Logger: s.log, Registerer: s.metrics.registry,
	})
}

// awaitReady returns once the runner reads its share of the inbox, its own tools are announced, and it serves models if it
// is to.
func (s *service) awaitReady(ctx context.Context) error {
	select {
	case <-s.inbox.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	own := slices.Concat(s.o.policy.extensions, s.o.tools)
	if err := s.toolbox.Wait(ctx, own...); err != nil {
		return fmt.Errorf("tools %v not announced: %w", own, err)
	}
	if s.models == nil {
		return nil
	}
	select {
	case <-s.models.Ready():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close undoes what was opened, the last first.
func (s *service) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}

// stopping hands sessions over at once when the runner is told to stop: their drivers stop without another effect, and
// their messages go back to the queue for the next runner.
type stopping struct {
	host *driver.Host
	stop context.Context
}

func (h *stopping) Deliver(ctx context.Context, c schemas.Command, entered func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.stop, func() {
		if errors.Is(context.Cause(h.stop), errOver) { // let the session rest, so that nothing of it comes again
			select {
			case <-ctx.Done():
			case <-time.After(restTime):
			}
		}
		cancel(driver.ErrStopped)
	})()
	return h.host.Deliver(ctx, c, entered)
}

func (h *stopping) Keeps(ctx context.Context, session string) bool { return h.host.Keeps(ctx, session) }

func (h *stopping) Reject(ctx context.Context, session string, r schemas.CommandRejected) error {
	return h.host.Reject(ctx, session, r)
}

var _ bus.Handler = (*stopping)(nil)
