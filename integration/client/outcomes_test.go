package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// busy returns a session whose first run pauses in the middle of its reply.
func busy(t *testing.T) (model *system.Gated, s *client.Session, first *client.Run) {
	t.Helper()
	model = system.NewGated(4, chunked(t, scripted.Text("as you say")))
	sys := system.StartAlone(t, system.Options{Model: model})
	t.Cleanup(model.Release) // before the runner is stopped
	s = connect(t, sys.URL).Session("s1")
	first, err := s.Prompt(deadline(t), client.Text("begin"))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-model.Reached:
	case <-deadline(t).Done():
		t.Fatal("the model was not called")
	}
	return model, s, first
}

// prompt sends a prompt.
func prompt(t *testing.T, s *client.Session, text string, opts ...client.Option) *client.Run {
	t.Helper()
	run, err := s.Prompt(deadline(t), client.Text(text), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// result waits for the result of a run that has to succeed.
func result(t *testing.T, run *client.Run) client.Result {
	t.Helper()
	res, err := run.Wait(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// followed returns the events of a run and its error.
func followed(t *testing.T, run *client.Run) (events []schemas.Event, err error) {
	t.Helper()
	seen := newChecked(t)
	for item, err := range run.Items(deadline(t)) {
		if err != nil {
			return seen.events(), err
		}
		seen.add(item)
	}
	return seen.events(), nil
}

func TestPromptIsRejected(t *testing.T) {
	t.Parallel()
	_, s, _ := busy(t)
	run := prompt(t, s, "no", client.WhenBusy(schemas.BusyReject), client.WithID("p-17"))
	_, err := run.Wait(deadline(t))
	var rejected *client.RejectedError
	if !errors.As(err, &rejected) || rejected.Code != schemas.RejectBusy || rejected.CommandID != "p-17" ||
		rejected.Session != "s1" || rejected.Kind != schemas.CommandPrompt {
		t.Errorf("got %#v", err)
	}
	events, err := followed(t, run)
	if !errors.As(err, &rejected) || len(events) != 1 || events[0].Type() != schemas.EventCommandRejected {
		t.Errorf("items %v, %v", system.TypesOf(events), err)
	}
}

func TestUnreadablePromptIsRejectedByItsID(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: scripted.New()})
	run := prompt(t, connect(t, s.URL).Session("s1"), "", client.WithID("ünreadable 1"))
	_, err := run.Wait(deadline(t))
	var rejected *client.RejectedError
	if !errors.As(err, &rejected) || rejected.Code != schemas.RejectInvalid || rejected.CommandID != "ünreadable 1" {
		t.Errorf("got %#v", err)
	}
}

func TestQueuedPromptFollowsItsOwnRunOnly(t *testing.T) {
	t.Parallel()
	model, s, first := busy(t)
	queued := prompt(t, s, "and this")
	var others []string // runs of events that are not the command's own
	for item, err := range queued.Items(deadline(t)) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case item.Event == nil:
		case item.Event.Type() == schemas.EventCommandAccepted:
			model.Release()
		case !slices.Contains(others, item.Event.RunID):
			others = append(others, item.Event.RunID)
		}
	}
	one, two := result(t, first), result(t, queued)
	if one.RunID == two.RunID || !two.Reason.Normal() || !slices.Equal(others, []string{two.RunID}) {
		t.Errorf("runs %s and %s, reason %s, followed %v", one.RunID, two.RunID, two.Reason, others)
	}
}

func TestSteerJoinsTheRun(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(ctx context.Context, s *client.Session) (*client.Run, error){
		"steer": func(ctx context.Context, s *client.Session) (*client.Run, error) {
			return s.Steer(ctx, client.Text("x"))
		},
		"follow_up": func(ctx context.Context, s *client.Session) (*client.Run, error) {
			return s.FollowUp(ctx, client.Text("x"))
		},
		"prompt": func(ctx context.Context, s *client.Session) (*client.Run, error) {
			return s.Prompt(ctx, client.Text("x"), client.WhenBusy(schemas.BusySteer))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, s, first := busy(t)
			steered, err := send(deadline(t), s)
			if err != nil {
				t.Fatal(err)
			}
			releaseOnce(t, model, s)
			if one, two := result(t, first), result(t, steered); one.RunID != two.RunID || one.Seq != two.Seq {
				t.Errorf("runs %+v and %+v", one, two)
			}
			events, err := followed(t, steered)
			if err != nil || events[0].Type() != schemas.EventCommandAccepted ||
				events[len(events)-1].Type() != schemas.EventAgentEnd {
				t.Errorf("items %v, %v", system.TypesOf(events), err)
			}
		})
	}
}

// releaseOnce lets the model continue once the session has accepted a second input.
func releaseOnce(t *testing.T, g *system.Gated, s *client.Session) {
	t.Helper()
	accepted := 0
	for item, err := range s.Watch(deadline(t), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if item.Event != nil && item.Event.Type() == schemas.EventCommandAccepted {
			if accepted++; accepted == 2 {
				break
			}
		}
	}
	g.Release()
}

func TestSteerOfAnIdleSessionBeginsARun(t *testing.T) {
	t.Parallel()
	sys := system.StartAlone(t, system.Options{Model: chunked(t, scripted.Text("begun"))})
	run, err := connect(t, sys.URL).Session("s1").Steer(deadline(t), client.Text("begin"))
	if err != nil {
		t.Fatal(err)
	}
	if res := result(t, run); res.Text() != "begun" {
		t.Errorf("got %+v", res)
	}
}

func TestInterruptSupersedesWhatWaits(t *testing.T) {
	t.Parallel()
	_, s, first := busy(t)
	waiting := prompt(t, s, "wait")
	last := prompt(t, s, "now", client.WhenBusy(schemas.BusyInterrupt))
	_, err := waiting.Wait(deadline(t))
	var gone *client.WithdrawnError
	if !errors.As(err, &gone) || !gone.Superseded || gone.By != last.CommandID() {
		t.Errorf("the waiting prompt: %v", err)
	}
	if res := result(t, first); res.Reason != schemas.EndAbort {
		t.Errorf("the first run: %+v", res)
	}
}

func TestWithdrawnPrompt(t *testing.T) {
	t.Parallel()
	_, s, _ := busy(t)
	waiting := prompt(t, s, "wait", client.WithID("w"))
	if err := s.Do(deadline(t), &schemas.CancelInput{InputID: "w"}, client.WithID("c")); err != nil {
		t.Fatal(err)
	}
	_, err := waiting.Wait(deadline(t))
	var gone *client.WithdrawnError
	if !errors.As(err, &gone) || gone.Superseded || gone.By != "c" {
		t.Errorf("got %v", err)
	}
}

func TestTheSameIDIsTheSameRun(t *testing.T) {
	t.Parallel()
	sys := system.StartAlone(t, system.Options{Model: chunked(t, scripted.Text("once"))})
	s := connect(t, sys.URL).Session("s1")
	first := result(t, prompt(t, s, "go", client.WithID("p-17")))
	result(t, prompt(t, s, "another"))
	other := connect(t, sys.URL)
	again := prompt(t, other.Session("s1"), "go", client.WithID("p-17"))
	if res := result(t, again); res.RunID != first.RunID || res.Seq != first.Seq {
		t.Errorf("got %+v, want %+v", res, first)
	}
	events, err := followed(t, again)
	if err != nil || events[0].Seq != 1 || events[len(events)-1].Seq != first.Seq {
		t.Errorf("items %v, %v", system.TypesOf(events), err)
	}
	if res := result(t, other.Session("s1").Run("p-17")); res.RunID != first.RunID {
		t.Errorf("by its id: %+v", res)
	}
	if res := result(t, prompt(t, other.Session("s2"), "go", client.WithID("p-17"))); res.Text() != "once" {
		t.Errorf("the same id in another session: %+v", res)
	}
	if n := len(system.Reasons(sys.LogOf(t, "s1"))); n != 2 {
		t.Errorf("session s1 had %d runs", n)
	}
}

func TestCommandsHaveTheirOutcome(t *testing.T) {
	t.Parallel()
	model, s, first := busy(t)
	ctx := deadline(t)
	set := []schemas.CommandData{&schemas.SetThinkingLevel{ThinkingLevel: "high"}, &schemas.SetTools{Tools: []string{}},
		&schemas.SetSystemPrompt{SystemPrompt: "be brief"}}
	for _, setting := range set {
		if err := s.Set(ctx, setting); err != nil {
			t.Errorf("%s: %v", setting.CommandKind(), err)
		}
	}
	var rejected *client.RejectedError
	if err := s.Set(ctx, &schemas.SetTools{Tools: []string{"nobody"}}); !errors.As(err, &rejected) ||
		rejected.Code != schemas.RejectNoTool {
		t.Errorf("set_tools: %v", err)
	}
	if err := s.Set(ctx, &schemas.Abort{}); err == nil || errors.As(err, &rejected) && rejected.Kind == "abort" {
		t.Errorf("an abort that is no setting: %v", err)
	}
	if err := s.Abort(ctx, "enough"); err != nil {
		t.Errorf("abort: %v", err)
	}
	model.Release()
	if res := result(t, first); res.Reason != schemas.EndAbort {
		t.Errorf("the run: %+v", res)
	}
	if err := s.Abort(ctx, "enough"); !errors.As(err, &rejected) || rejected.Code != schemas.RejectNoRun {
		t.Errorf("an abort of nothing: %v", err)
	}
}
