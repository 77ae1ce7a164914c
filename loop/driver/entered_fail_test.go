package driver_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// A command to a session that cannot be loaded has no place in the order: the messages behind it keep waiting.
func TestEnteredIsNotCalledIfTheSessionCannotBeLoaded(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone(), func(o *host.Options) {
		o.Open = func(context.Context, string) (host.SessionLog, error) { return nil, errors.New("away") }
	})
	err := r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), func() { t.Error("it has entered") })
	if err == nil {
		t.Error("it was taken in")
	}
}

// If messages may have followed a command into the session, the command is not retried after them.
func TestCommandThatEnteredAStaleSessionIsRedelivered(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"))
	stale := r.Host
	r.Deliver("p1", looptest.Prompt("go"))
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
	r.Host = r.NewHost(looptest.ToolThenDone("t1"))
	r.Deliver(id, result)
	entered := 0
	err := stale.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), func() { entered++ })
	if !errors.Is(err, driver.ErrConflict) || entered != 1 {
		t.Errorf("entered %d times, error %v; want a conflict", entered, err)
	}
	r.WantEnd(schemas.EndNoToolCalls)
}

// A delivery that finds the session lost stops the delivery that drives; the output of its model call is discarded.
func TestALostSessionStopsItsModel(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	r := looptest.New(t, looptest.ModelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	driving := make(chan error, 1)
	go func() { driving <- r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil) }()
	<-asked
	say := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("hi"),
			nil
	})
	other := r.NewHost(say)
	if err := other.Deliver(t.Context(), looptest.Command("p2", looptest.Prompt("also")), nil); err != nil {
		t.Fatal(err)
	}
	r.Deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}}) // finds out, and loads the session again
	select {
	case err := <-driving:
		if err == nil {
			t.Error("the delivery that drove the session was acknowledged")
		}
	case <-time.After(30 * time.Second):
		t.Error("the model is still being listened to")
	}
}

// The events that an earlier process owed for a command are appended before the next command decides anything.
func TestOwedEventsAreAppendedBeforeTheNextCommand(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	var r *looptest.Rig
	torn := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		r.Deliver("p2", looptest.Prompt("waits"))
		r.Store.OnAppend = func(e schemas.Event, stored bool) error {
			if !stored && e.Type() == schemas.EventCommandWithdrawn {
				stop()
				return errors.New("dies here")
			}
			return nil
		}
		if err := r.Host.Deliver(ctx, looptest.Command("c1", &schemas.ClearQueue{}), nil); err == nil {
			t.Error("clear_queue was taken as done")
		}
		return looptest.Say("hi"), nil
	}
	r = looptest.New(t, looptest.ModelFunc(torn))
	if err := r.Host.Deliver(ctx, looptest.Command("p1", looptest.Prompt("go")), nil); err == nil {
		t.Fatal("the prompt was taken as done")
	}
	r.Store.OnAppend = nil
	r.Host = r.NewHost(looptest.ToolThenDone())
	r.Deliver("p3", &schemas.Prompt{Input: schemas.Input{Text: "now"}, WhenBusy: schemas.BusyInterrupt})
	outcomes := map[string][]schemas.EventType{}
	for _, e := range r.Events() {
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
