package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// A command that could not be taken in has no place in the order: whoever waits behind it goes on waiting.
func TestACommandThatWasNotTakenInHasNotEntered(t *testing.T) {
	r := newRig(t, toolThenDone(), func(o *driver.HostOptions) {
		o.Open = func(context.Context, string) (driver.SessionLog, error) { return nil, errors.New("away") }
	})
	err := r.host.Deliver(t.Context(), command("p1", prompt("go")), func() { t.Error("it has entered") })
	if err == nil {
		t.Error("it was taken in")
	}
}

// Where messages may have come in behind a command, it is not tried again past them.
func TestACommandThatEnteredAStaleSessionIsGivenBack(t *testing.T) {
	r := newRig(t, toolThenDone("t1"))
	stale := r.host
	r.deliver("p1", prompt("go"))
	id, result := answerTo(r.tools.take(t), "ok")
	r.host = r.newHost(toolThenDone("t1"))
	r.deliver(id, result)
	entered := 0
	err := stale.Deliver(t.Context(), command("p1", prompt("go")), func() { entered++ })
	if !errors.Is(err, driver.ErrConflict) || entered != 1 {
		t.Errorf("entered %d times, error %v; want a conflict", entered, err)
	}
	r.wantEnd(schemas.EndNoToolCalls)
}

// One delivery that learns that the session is lost stops the one that drives it: what its model still says goes nowhere.
func TestALostSessionStopsItsModel(t *testing.T) {
	asked := make(chan struct{})
	r := newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	driving := make(chan error, 1)
	go func() { driving <- r.host.Deliver(t.Context(), command("p1", prompt("go")), nil) }()
	<-asked
	say := modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("hi"), nil })
	other := r.newHost(say)
	if err := other.Deliver(t.Context(), command("p2", prompt("also")), nil); err != nil {
		t.Fatal(err)
	}
	r.deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}}) // finds out, and takes the session up anew
	select {
	case err := <-driving:
		if err == nil {
			t.Error("the delivery that drove the session was settled")
		}
	case <-time.After(30 * time.Second):
		t.Error("the model is still being listened to")
	}
}

// What an earlier process left of a command is completed before the next one decides anything.
func TestWhatIsOwedIsPaidBeforeTheNextCommand(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var r *rig
	torn := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		r.deliver("p2", prompt("waits"))
		r.store.OnAppend = func(e schemas.Event, stored bool) error {
			if !stored && e.Type() == schemas.EventCommandWithdrawn {
				stop()
				return errors.New("dies here")
			}
			return nil
		}
		if err := r.host.Deliver(ctx, command("c1", &schemas.ClearQueue{}), nil); err == nil {
			t.Error("clear_queue was taken as done")
		}
		return say("hi"), nil
	}
	r = newRig(t, modelFunc(torn))
	if err := r.host.Deliver(ctx, command("p1", prompt("go")), nil); err == nil {
		t.Fatal("the prompt was taken as done")
	}
	r.store.OnAppend = nil
	r.host = r.newHost(toolThenDone())
	r.deliver("p3", &schemas.Prompt{Input: schemas.Input{Text: "now"}, WhenBusy: schemas.BusyInterrupt})
	outcomes := map[string][]schemas.EventType{}
	for _, e := range r.events() {
		switch d := e.Data.(type) {
		case *schemas.CommandSuperseded:
			outcomes[d.CommandID] = append(outcomes[d.CommandID], e.Type())
		case *schemas.CommandWithdrawn:
			outcomes[d.CommandID] = append(outcomes[d.CommandID], e.Type())
		}
	}
	want := map[string][]schemas.EventType{"p2": {schemas.EventCommandWithdrawn}}
	if d := cmp.Diff(want, outcomes); d != "" {
		t.Errorf("outcomes (-want +got):\n%s", d)
	}
}
