package system

import (
	"context"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// RunnerOptions say what a runner is made of. Only Model is required.
type RunnerOptions struct {
	Model   driver.Model
	Streams bus.StreamOptions         // as they are set up before the runner starts
	Store   eventstore.Options        // of the log
	Inbox   bus.InboxOptions          // without a RunnerID it is "bench"
	Updates bus.UpdateOptions         // of the live deltas
	Host    func(*driver.HostOptions) // changes what the host is made of, or wraps it; nil leaves it
}

// Runner is a runner in this process.
type Runner struct {
	Conn    *bus.Conn
	Store   *eventstore.Store
	Toolbox *bus.Toolbox
	Inbox   *bus.Inbox
	// Stop stops it as SIGTERM does, and returns when it has ended. The end of the test calls it too.
	Stop func()
}

// StartRunner starts a runner and returns once it reads its share of the inbox.
func StartRunner(tb testing.TB, url string, o RunnerOptions) *Runner {
	tb.Helper()
	if o.Inbox.RunnerID == "" {
		o.Inbox.RunnerID = "bench"
	}
	r := &Runner{Conn: Connect(tb, url, o.Inbox.RunnerID)}
	if err := bus.Setup(tb.Context(), r.Conn, o.Streams); err != nil {
		tb.Fatal(err)
	}
	if o.Store.Logger == nil {
		o.Store.Logger = o.Inbox.Logger
	}
	var err error
	if r.Store, err = eventstore.New(r.Conn.Events(), o.Store); err != nil {
		tb.Fatal(err)
	}
	r.Toolbox = bus.NewToolbox(r.Conn, o.Inbox.Logger)
	tb.Cleanup(r.Toolbox.Close)
	if r.Inbox, err = bus.NewInbox(r.Conn, o.Inbox); err != nil {
		tb.Fatal(err)
	}
	host := driver.NewHost(r.hostOptions(o))
	r.Stop = Serve(tb, func(ctx context.Context) error { return r.Inbox.Run(ctx, host) })
	select {
	case <-r.Inbox.Ready():
	case <-time.After(Deadline):
		tb.Fatal("the inbox never became ready")
	}
	return r
}

func (r *Runner) hostOptions(o RunnerOptions) driver.HostOptions {
	host := driver.HostOptions{
		Open:  func(ctx context.Context, id string) (driver.SessionLog, error) { return r.Store.Open(ctx, id) },
		Model: o.Model, Tools: bus.NewDispatcher(r.Conn), Toolbox: r.Toolbox,
		Live: bus.NewUpdates(r.Conn, o.Updates), Timers: bus.NewTimers(r.Conn),
		Source:   "/loopbus/runner/" + o.Inbox.RunnerID,
		Defaults: schemas.RunConfig{Model: schemas.ModelRef{API: "scripted", Provider: "scripted", ID: "scripted"}},
		Logger:   o.Inbox.Logger,
	}
	if o.Host != nil {
		o.Host(&host)
	}
	return host
}
