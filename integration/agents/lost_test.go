package agents_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/watchdog"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// dropping acknowledges the first command of a kind without delivering it, as if the servers had lost it.
type dropping struct {
	inbox.Handler
	kind    schemas.CommandKind
	dropped *atomic.Bool
}

func (d dropping) Deliver(ctx context.Context, c schemas.Command, entered func()) error {
	if c.Data.CommandKind() == d.kind && d.dropped.CompareAndSwap(false, true) {
		return nil
	}
	return d.Handler.Deliver(ctx, c, entered)
}

// lossy starts a runner that loses one command, and a worker that counts the executions of an unsafe tool.
func lossy(t *testing.T, model driver.Model, kind schemas.CommandKind) (r *system.System, executed *atomic.Int32,
	start func() *system.Runner) {
	t.Helper()
	url := system.StartServer(t, false).ClientURL()
	executed = new(atomic.Int32)
	var dropped atomic.Bool
	start = func() *system.Runner {
		return system.RunOn(t, system.Connect(t, url, "lossy"), wiring.Options{
			ID: "lossy", Watchdog: watchdog.Options{Every: 50 * time.Millisecond, Silent: 200 * time.Millisecond},
			Handler: func(h inbox.Handler) inbox.Handler { return dropping{h, kind, &dropped} },
			Host: host.Options{
				Deps:     driver.Deps{Model: model},
				Defaults: schemas.RunConfig{Model: schemas.ModelRef{API: "rehearsal", Provider: "rehearsal", ID: "rehearsal"}},
				Policy:   schemas.ToolPolicy{Extensions: schemas.ExtensionTools()},
			},
		})
	}
	r = &system.System{URL: url, Runner: start(), Client: system.Connect(t, url, "toolworker")}
	system.StartWorker(t, r.Client, "worker", tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "pay"},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			executed.Add(1)
			return schemas.TextResult("paid"), nil
		},
	})
	if err := r.Toolbox.Wait(t.Context(), "pay"); err != nil {
		t.Fatal(err)
	}
	return r, executed, start
}

// TestALostMessageStopsNoRun loses a message that is all that a run waits for.
func TestALostMessageStopsNoRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lost     schemas.CommandKind
		prompt   string
		executed int32
		result   string
	}{
		{schemas.CommandToolResult, "call pay {}", 1, schemas.TextOutcomeUnknown},
		{schemas.CommandSubagentPrompt, `call agent {"prompt":"say hello"}`, 0, "gone"},
		{schemas.CommandSubagentResult, `call agent {"prompt":"say hello"}`, 0, "lost on its way"},
		{schemas.CommandSubagentResult, `call agent {"prompt":"say hello","background":true}`, 0, "works in session"},
	} {
		t.Run(string(c.lost), func(t *testing.T) {
			t.Parallel()
			r, executed, _ := lossy(t, &rehearsal.Model{}, c.lost)
			r.Prompt(t, "s1", c.prompt)
			runs := 1
			if strings.Contains(c.prompt, "background") {
				runs = 2 // the result starts another one
			}
			log := r.Until(t, "s1", "the end of the run", bustest.Nth(runs, schemas.EventAgentEnd))
			ends := system.DataOf[*schemas.ToolExecutionEnd](log)
			if len(ends) != 1 || !strings.Contains(ends[0].Result.Content.JoinText(), c.result) {
				t.Errorf("results %+v, want one with %q", ends, c.result)
			}
			if n := executed.Load(); n != c.executed {
				t.Errorf("executed %d times, want %d", n, c.executed)
			}
			r.Verify(t, "s1")
		})
	}
}

// TestALostWakeUpStopsNoRun removes the message that would wake a session which its runner has left in the middle of a
// reply.
func TestALostWakeUpStopsNoRun(t *testing.T) {
	t.Parallel()
	model := system.NewGated(2, &rehearsal.Model{})
	r, _, start := lossy(t, model, "none")
	r.Prompt(t, "s1", "say hello")
	<-model.Reached
	r.Stop()
	stream, err := r.Client.JetStream().Stream(t.Context(), schemas.StreamCommands)
	if err == nil {
		err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("agent.cmd.*.s1.>"))
	}
	if err != nil {
		t.Fatal(err)
	}
	model.Release()
	r.Runner = start()
	log := r.Until(t, "s1", "the end of the run", system.Ends(1))
	if d := system.DataOf[*schemas.RunResumed](log); len(d) != 1 {
		t.Errorf("resumed %d times", len(d))
	}
}
