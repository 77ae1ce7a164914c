package driver_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// meanwhile is a toolbox that has something else happen while it is asked, once.
type meanwhile struct {
	echoBox
	happen func()
}

func (b *meanwhile) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	if happen := b.happen; happen != nil {
		b.happen = nil
		happen()
	}
	return b.echoBox.Definitions(ctx)
}

// A run's settings are resolved without keeping commands out, which may take the run's input away. A run without it would
// call the model on the transcript as it was, and execute again what the model asks for again.
func TestNoRunBeginsWithAnInputThatIsWithdrawnMeanwhile(t *testing.T) {
	r := newRig(t, nil)
	box := &meanwhile{}
	r.host = r.newHost(toolThenDone("t1"), func(o *driver.HostOptions) { o.Toolbox = box })
	box.happen = func() { r.deliver("a1", &schemas.Abort{ClearQueue: true}) }
	r.deliver("p1", prompt("go"))
	if n := r.count(schemas.EventAgentStart); n != 0 {
		t.Errorf("%d runs begin: %v", n, r.types())
	}
}

// Settings hold from the next run on, also if they come at the last moment.
func TestARunBeginsWithTheSettingsBeforeIt(t *testing.T) {
	r := newRig(t, nil)
	box := &meanwhile{}
	r.host = r.newHost(modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("hi"), nil }),
		func(o *driver.HostOptions) { o.Toolbox = box })
	box.happen = func() { r.deliver("m1", &schemas.SetModel{Model: schemas.ModelRef{ID: "other"}}) }
	r.deliver("p1", prompt("go"))
	for _, e := range r.events() {
		if start, ok := e.Data.(*schemas.AgentStart); ok && start.Config.Model.ID != "other" {
			t.Errorf("the run begins with the model %q", start.Config.Model.ID)
		}
	}
}

// A run whose configuration cannot be resolved takes its input in before it fails: the command has its outcome, and the
// transcript has what was said.
func TestARunThatCannotBeConfiguredTakesItsInputIn(t *testing.T) {
	r := newRig(t, toolThenDone(), func(o *driver.HostOptions) { o.Profile = "gone" })
	r.deliver("p1", prompt("go"))
	r.wantEnd(schemas.EndError)
	if d := cmp.Diff([]string{"go"}, r.said()); d != "" {
		t.Errorf("said (-want +got):\n%s", d)
	}
	if n := r.count(schemas.EventCommandApplied); n != 1 {
		t.Errorf("%d outcomes: %v", n, r.types())
	}
}
