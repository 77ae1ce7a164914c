package system

import (
	"context"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/live"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// RunnerOptions configure a runner. Only Model is required.
type RunnerOptions struct {
	Model   driver.Model
	Streams streams.Options     // for the setup of the streams before the runner starts
	Store   eventstore.Options  // of the log
	Inbox   inbox.Options       // without a RunnerID it is "bench"
	Updates live.Options        // of the live deltas
	Host    func(*host.Options) // changes the options of the host; may be nil
}

// Runner is a runner in this process, assembled as the runner's command assembles it.
type Runner struct {
	*wiring.Runner
	// Stop stops the runner as SIGTERM does, and returns when it has ended. It is also called when the test ends.
	Stop func()
}

// StartRunner starts a runner and returns once it is ready.
func StartRunner(tb testing.TB, url string, o RunnerOptions) *Runner {
	tb.Helper()
	if o.Inbox.RunnerID == "" {
		o.Inbox.RunnerID = "bench"
	}
	return RunOn(tb, Connect(tb, url, o.Inbox.RunnerID), wiring.Options{
		ID: o.Inbox.RunnerID, Streams: o.Streams, Store: o.Store, Inbox: o.Inbox, Updates: o.Updates,
		Host: host.Options{
			Deps:     driver.Deps{Model: o.Model},
			Defaults: schemas.RunConfig{Model: schemas.ModelRef{API: "scripted", Provider: "scripted", ID: "scripted"}},
		},
		Change: o.Host, Logger: o.Inbox.Logger,
	})
}

// RunOn starts a runner on a connection and returns once it is ready.
func RunOn(tb testing.TB, c *bus.Conn, o wiring.Options) *Runner {
	tb.Helper()
	runner, err := wiring.New(tb.Context(), c, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(runner.Close)
	r := &Runner{Runner: runner}
	r.Stop = Serve(tb, func(ctx context.Context) error { return runner.Run(ctx) })
	select {
	case <-runner.Ready():
	case <-time.After(Deadline):
		tb.Fatal("the runner did not become ready")
	}
	return r
}
