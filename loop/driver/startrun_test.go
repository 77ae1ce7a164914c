package driver_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// meanwhile is a toolbox during whose first call something else happens.
type meanwhile struct {
	looptest.EchoBox
	happen func()
}

func (b *meanwhile) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	if happen := b.happen; happen != nil {
		b.happen = nil
		happen()
	}
	return b.EchoBox.Definitions(ctx)
}

// Commands are accepted while a run's configuration is resolved, and may withdraw the run's input. A run without input
// would call the model on the old transcript and execute its calls again.
func TestRunDoesNotStartWithAWithdrawnInput(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	box := &meanwhile{}
	r.Host = r.NewHost(looptest.ToolThenDone("t1"), func(o *host.Options) { o.Toolbox = box })
	box.happen = func() { r.Deliver("a1", &schemas.Abort{ClearQueue: true}) }
	r.Deliver("p1", looptest.Prompt("go"))
	if n := r.Count(schemas.EventAgentStart); n != 0 {
		t.Errorf("%d runs begin: %v", n, r.Types())
	}
}

// Settings take effect at the next run, even if they arrive at the last moment.
func TestRunStartsWithTheNewestSettings(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	box := &meanwhile{}
	r.Host = r.NewHost(looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		return looptest.Say("hi"), nil
	}),
		func(o *host.Options) { o.Toolbox = box })
	box.happen = func() { r.Deliver("m1", &schemas.SetModel{Model: schemas.ModelRef{ID: "other"}}) }
	r.Deliver("p1", looptest.Prompt("go"))
	var models []string
	for _, e := range r.Events() {
		if start, ok := e.Data.(*schemas.AgentStart); ok {
			models = append(models, start.Config.Model.ID)
		}
	}
	if !slices.Equal(models, []string{"other"}) {
		t.Errorf("runs begin with the models %q", models)
	}
}

// A run whose configuration cannot be resolved consumes its input before it fails: the command has its outcome, and the
// transcript has its message.
func TestUnconfigurableRunConsumesItsInput(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone(), func(o *host.Options) { o.Profile = "gone" })
	r.Deliver("p1", looptest.Prompt("go"))
	r.WantEnd(schemas.EndError)
	if d := cmp.Diff([]string{"go"}, said(r)); d != "" {
		t.Errorf("said (-want +got):\n%s", d)
	}
	if n := r.Count(schemas.EventCommandApplied); n != 1 {
		t.Errorf("%d outcomes: %v", n, r.Types())
	}
}
