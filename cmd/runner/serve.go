package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus"
	webbridge "github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/live"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/memory"
	"github.com/loopbus/loopbus/cmd/internal/observe"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

const (
	connectTimeout = 10 * time.Second
	// aimedMemory is the memory of the runner and its server above which garbage is collected more often than by default.
	aimedMemory = 144 << 20
)

// service is a runner together with everything that the command starts around it.
type service struct {
	*wiring.Runner
	o        *options
	log      *slog.Logger
	server   *embedded.Server // nil with --nats
	registry *prometheus.Registry
	traces   *observe.Traces
	out      io.Writer         // where the link to the console is printed
	views    *webbridge.Budget // of what all bridges show
	outputs  string            // directory for outputs of commands that are too long to be returned; "" is the default
	closers  []func()
}

// serve runs until ctx ends, then shuts down gracefully.
func serve(ctx context.Context, o *options, io *cli.IO) error {
	log := o.Observe.Logger(io)
	s, err := open(ctx, o, log)
	if err != nil {
		return err
	}
	defer s.close()
	s.out = io.Stdout
	durability, err := s.durability(ctx)
	if err != nil {
		return err
	}
	log.Info("runner starts", "id", o.Server.ID, "nats", s.where(), "model", s.o.Models.chosen.String())
	log.Debug("runner settings", "tools", o.Tools.Tools, "durability", durability.Text, "digest", o.digest())
	if variable := o.Models.lacksKey(o.Models.chosen); variable != "" {
		log.Warn("the default model has no API key", "model", o.Models.chosen.String(), "variable", variable)
	}
	if durability.PageCache {
		log.Warn("acknowledged messages may exist only in the page cache of one machine: a power failure can lose the latest",
			"remedy", "--sync-always for the embedded server, sync_always in the configuration of nats-server, or "+
				"--replicas 3 on a cluster")
	}
	return s.run(ctx)
}

func (s *service) durability(ctx context.Context) (streams.Durability, error) {
	if s.server != nil {
		return s.server.Durability(), nil
	}
	return streams.DurabilityOf(ctx, s.Conn)
}

func (s *service) where() string {
	if s.server != nil {
		return s.server.ClientURL()
	}
	return dial.Connected(s.Conn.NATS())
}

// open starts or connects to the server, creates the streams, and wires the runner.
func open(ctx context.Context, o *options, log *slog.Logger) (*service, error) {
	s := &service{o: o, log: log, registry: observe.NewRegistry("runner", version), out: io.Discard,
		views: webbridge.NewViews(webbridge.MaxViewed)}
	if err := s.open(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *service) open(ctx context.Context) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	traces, err := observe.NewTraces(ctx, s.o.Observe.OTLP, "runner", s.o.Server.ID)
	if err != nil {
		return err
	}
	s.traces, s.closers = traces, append(s.closers, traces.Close)
	if s.Runner, err = wiring.New(ctx, conn, s.o.runner(conn, traces, s.log, s.registry)); err != nil {
		return err
	}
	s.closers = append(s.closers, s.Runner.Close)
	fleet, err := joinFleet(conn, s.o.Server.ID, s.o.digest(), s.log)
	if err == nil && s.o.Server.StrictFleet {
		err = fleet.strict(ctx)
	}
	return err
}

// runner converts the settings to the options of a runner.
func (o *options) runner(conn *bus.Conn, tracer driver.Tracer, log *slog.Logger, to prometheus.Registerer,
) wiring.Options {
	model := newModels(o, conn)
	w := wiring.Options{
		ID: o.Server.ID, Streams: streams.Options{Partitions: o.Server.Partitions, Replicas: o.Server.Replicas},
		Inbox: inbox.Options{Takeover: o.Server.Takeover, StopTimeout: o.Server.StopTimeout,
			MaxSessions: o.Sessions.MaxSessions},
		Updates: live.Options{Interval: o.Sessions.UpdateInterval},
		Host: host.Options{
			Deps: driver.Deps{
				Model: model, Retryable: model.Retryable, Tracer: tracer,
				IdleTimeout: o.Limits.IdleTimeout, AbortGrace: o.Sessions.AbortGrace, CallWindow: o.Tools.Window,
			},
			CheckModel: model.check, Window: o.Models.window, Defaults: o.runDefaults(),
			Policy:  o.Policy.tools(o.Tools.ToolTimeout),
			Profile: o.Sessions.Profile, WorkBytes: o.Sessions.SessionMemory << 20,
		},
		Retention: o.Retention.rules,
		Tools:     slices.Concat(o.Policy.served(), o.Tools.Tools), Unserved: o.Tools.Unserved,
		Logger: log, Registerer: to,
	}
	if o.Models.ServeModels {
		w.Serve = model.own()
	}
	return w
}

func (s *service) connect(ctx context.Context) (*bus.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	name := "loopbus runner " + s.o.Server.ID
	conn, err := s.connectTo(ctx, name)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, conn.Close)
	return conn, nil
}

// connectTo connects to the servers of the settings, or starts the embedded one.
func (s *service) connectTo(ctx context.Context, name string) (*bus.Conn, error) {
	o := &s.o.Server
	if !o.embedded() {
		return o.Bus(ctx, name, s.log)
	}
	dir, err := s.storeDir()
	if err != nil {
		return nil, err
	}
	s.server, err = embedded.Start(embedded.Options{
		Listen: o.Listen, StoreDir: dir, SyncAlways: o.SyncAlways, SyncInterval: o.SyncInterval, Name: o.ID, Logger: s.log,
	})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.server.Shutdown)
	return bus.Connect(ctx, bus.ConnOptions{InProcess: s.server, Name: name, Prefix: o.Prefix, Logger: s.log})
}

// storeDir returns the directory of the embedded server. Without --store it is temporary and removed on close.
func (s *service) storeDir() (string, error) {
	if s.o.Server.Store != "" {
		return s.o.Server.Store, nil
	}
	dir, err := os.MkdirTemp("", "loopbus-")
	if err == nil {
		s.closers = append(s.closers, func() { _ = os.RemoveAll(dir) })
		s.outputs = filepath.Join(dir, "outputs") // not inside the store, where tools may not read
	}
	return filepath.Join(dir, "store"), err
}

func (o *options) runDefaults() schemas.RunConfig {
	return schemas.RunConfig{
		Model: o.Models.chosen, Fallbacks: o.Models.chosenFallbacks,
		ThinkingLevel: schemas.ThinkingLevel(o.Models.Thinking), SystemPrompt: o.Sessions.SystemPrompt,
		Limits: o.Limits.schema(), Retry: o.Limits.retry(), Workspace: o.Sessions.Workspace,
		Approval: o.Policy.approval(), Hooks: o.Policy.hookRefs, Subagents: o.Limits.subagents(),
		Compaction: schemas.CompactionPolicy{
			Enabled: !o.Sessions.NoCompaction, ReserveTokens: int64(o.Sessions.CompactReserve),
			KeepRecentTokens: int64(o.Sessions.CompactKeep), Model: o.Models.chosenSummary,
		},
	}
}

// run serves until ctx ends, together with the parts that the settings select and those of beside.
func (s *service) run(ctx context.Context, beside ...func(ctx context.Context) error) error {
	beside = append(beside, s.announce, s.checkApprovals,
		func(ctx context.Context) error { return memory.Bound(ctx, aimedMemory) })
	if len(s.o.Tools.Tools) > 0 {
		beside = append(beside, s.serveTools)
	}
	if len(s.o.Policy.served()) > 0 {
		beside = append(beside, s.serveExtensions)
	}
	if s.o.Observe.HTTP != observe.Off {
		beside = append(beside, s.serveHTTP)
	}
	err := s.Run(ctx, beside...)
	s.log.Info("runner stops", "id", s.o.Server.ID)
	return err
}

func (s *service) serveTools(ctx context.Context) error {
	return toolserve.Run(ctx, s.Conn, toolserve.Options{
		ID: s.o.Server.ID, Workspace: s.o.Sessions.Workspace, Tools: s.o.Tools.Tools, Root: s.o.Tools.Root,
		Concurrency: s.o.Tools.Concurrency, AckWait: s.o.Tools.AckWait, StopTimeout: s.o.Server.StopTimeout,
		NoResources: s.o.Tools.NoResources, Private: s.o.private(),
		Bash:    toolserve.Bash{Outputs: toolserve.Outputs{Dir: s.outputs}},
		Environ: os.Environ(), Logger: s.log, Registerer: s.registry, Trace: s.traces.Execute,
	})
}

// close undoes open in reverse order.
func (s *service) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}
