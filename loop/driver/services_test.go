package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// servicesFunc answers for all services.
type servicesFunc func(ctx context.Context, to schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error)

func (f servicesFunc) Ask(ctx context.Context, to schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer,
	error) {
	return f(ctx, to, req)
}

// served configures services for these hooks.
func served(f servicesFunc, hooks ...schemas.HookName) func(o *host.Options) {
	return func(o *host.Options) {
		o.Services = f
		for _, hook := range hooks {
			o.Defaults.Hooks = append(o.Defaults.Hooks, schemas.HookRef{Hook: hook, Service: "svc"})
		}
	}
}

// busy is a service that reports that it is asked and never answers.
func busy(asked chan<- struct{}) servicesFunc {
	return func(ctx context.Context, _ schemas.HookRef, _ schemas.HookRequest) (schemas.HookAnswer, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return schemas.HookAnswer{}, ctx.Err()
	}
}

func agree(context.Context, schemas.HookRef, schemas.HookRequest) (schemas.HookAnswer, error) {
	return schemas.HookAnswer{}, nil
}

// A runner that is stopped while a service is asked has decided nothing: the next runner asks again.
func TestAStoppedRunnerDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, hook := range schemas.HookNames() {
		if strings.HasPrefix(string(hook), "session_") { // no part of a run
			continue
		}
		t.Run(string(hook), func(t *testing.T) {
			asked := make(chan struct{}, 10)
			r := looptest.New(t, looptest.ToolThenDone("t1"), served(busy(asked), hook))
			if hook == schemas.HookAfterToolCall {
				r.Deliver("p1", looptest.Prompt("go"))
			}
			ctx, stop := context.WithCancelCause(t.Context())
			go func() { <-asked; stop(driver.ErrStopped) }()
			c := looptest.Command("p1", looptest.Prompt("go"))
			if hook == schemas.HookAfterToolCall {
				id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
				c = looptest.Command(id, result)
			}
			if err := r.Host.Deliver(ctx, c, nil); err == nil {
				t.Error("the message would be acknowledged")
			}
			if n := r.Count(schemas.EventHookDecision); n != 0 {
				t.Errorf("%d decisions: %v", n, r.Types())
			}
			r.Host = r.NewHost(looptest.ToolThenDone("t1"), served(agree, hook))
			r.Deliver(c.ID, c.Data)
			if len(r.Tools.Requests) > 0 {
				id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
				r.Deliver(id, result)
			}
			r.WantEnd(schemas.EndNoToolCalls)
			if r.Count(schemas.EventHookDecision) == 0 {
				t.Error("nobody was asked again")
			}
			if d := cmp.Diff([]string{"ok"}, results(r)); d != "" {
				t.Errorf("results (-want +got):\n%s", d)
			}
		})
	}
}

// An abort does not wait for a service, and a call without a decision is not executed.
func TestAnAbortDoesNotWaitForAService(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	r := looptest.New(t, looptest.ToolThenDone("t1"), served(busy(asked), schemas.HookBeforeToolCall))
	done := make(chan error, 1)
	go func() { done <- r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil) }()
	<-asked
	r.Deliver("a1", new(schemas.Abort))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.WantEnd(schemas.EndAbort)
	if d := cmp.Diff([]string{"Operation aborted"}, results(r)); d != "" || len(r.Tools.Requests) > 0 {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

// A panic of a service fails only the call it was asked about.
func TestAServiceThatPanicsHasFailed(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"), served(func(context.Context, schemas.HookRef,
		schemas.HookRequest) (schemas.HookAnswer, error) {
		panic("oh")
	}, schemas.HookBeforeToolCall))
	r.Deliver("p1", looptest.Prompt("go"))
	r.WantEnd(schemas.EndNoToolCalls)
	if d := cmp.Diff([]string{"beforeToolCall of svc was not decided: hook service panicked: oh"}, results(r)); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

// everything answers at every hook with a change.
func everything(_ context.Context, to schemas.HookRef, req schemas.HookRequest) (a schemas.HookAnswer, _ error) {
	more := schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "more"}}, Timestamp: 1}}
	switch to.Hook {
	case schemas.HookInput:
		a.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], more...)
	case schemas.HookBeforeAgentStart:
		prompt := "You are asked."
		a.Messages, a.SystemPrompt = more, &prompt
	case schemas.HookContext:
		a.Messages = append(more, req.Messages...)
	case schemas.HookBeforeToolCall:
		a.Args = []byte(`{"v":"changed"}`)
	case schemas.HookAfterToolCall:
		content := schemas.Contents{schemas.Text{Text: "changed"}}
		a.Content = &content
	}
	return a, nil
}

// TestHooksContinueAfterACrashAtEveryEvent has another host continue after each event of a run with every hook, and
// delivers every message once more: a decision that matters for what follows is not asked for again.
func TestHooksContinueAfterACrashAtEveryEvent(t *testing.T) {
	t.Parallel()
	play := func(r *looptest.Rig) {
		r.Deliver("p1", looptest.Prompt("go"))
		for range r.Tools.Requests {
			req := r.Tools.Take(t)
			if string(req.Arguments) != `{"v":"changed"}` {
				t.Errorf("dispatched with %s", req.Arguments)
			}
			id, result := looptest.AnswerTo(req, "ok")
			r.Deliver(id, result)
		}
		r.WantEnd(schemas.EndNoToolCalls)
	}
	hooked := served(everything, schemas.HookNames()...)
	whole := looptest.New(t, looptest.ToolThenDone("t1"), hooked)
	play(whole)
	for n := range whole.Events() {
		r := looptest.New(t, looptest.ToolThenDone("t1"), hooked)
		appendTo(t, r, whole.Events()[:n])
		play(r)
		if d := cmp.Diff([]string{"changed"}, results(r)); d != "" {
			t.Errorf("after %d events: results (-want +got):\n%s", n, d)
		}
		if d := cmp.Diff([]string{"go", "more", "more"}, said(r)); d != "" {
			t.Errorf("after %d events: said (-want +got):\n%s", n, d)
		}
	}
}

// said returns the texts of the user messages in the log.
func said(r *looptest.Rig) (texts []string) {
	for _, e := range r.Events() {
		if end, ok := e.Data.(*schemas.MessageEnd); ok && end.Message.MessageRole() == schemas.RoleUser {
			texts = append(texts, end.Message.Message.(*schemas.UserMessage).Content.JoinText())
		}
	}
	return texts
}

// An input that arrives right before a run polls its queue is screened first.
func TestInputIsScreenedBeforeItEntersTheRun(t *testing.T) {
	t.Parallel()
	var r *looptest.Rig
	r = looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("done"), nil
	}),
		served(func(_ context.Context, _ schemas.HookRef, req schemas.HookRequest) (a schemas.HookAnswer, _ error) {
			a.Handled = req.CommandID == "st1"
			return a, nil
		}, schemas.HookInput),
		func(o *host.Options) {
			o.Hooks.ShouldStopAfterTurn = func(context.Context, driver.TurnContext) (bool, error) {
				r.Deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "dropped"}})
				return false, nil
			}
		})
	r.Deliver("p1", looptest.Prompt("go"))
	if d := cmp.Diff([]string{"go"}, said(r)); d != "" {
		t.Errorf("said (-want +got):\n%s", d)
	}
}

// vendor is a model that shows a payload for its vendor, or none.
type vendor struct {
	looptest.ModelFunc
	sees bool
	sent []string
}

func (v *vendor) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	payload := json.RawMessage(`{"model":"m","temperature":1}`)
	if v.sees {
		became, err := req.OnPayload(ctx, payload)
		if err != nil {
			return func(yield func(schemas.StreamEvent, error) bool) { yield(schemas.StreamEvent{}, err) }
		}
		payload = became
	}
	req.OnPayload = nil
	v.sent = append(v.sent, string(payload))
	return v.ModelFunc.Stream(ctx, req)
}

func says(text string) looptest.ModelFunc {
	return func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say(text), nil
	}
}

// A service sees the vendor's payload and replaces it, and the log records that. If the model shows no payload, the log
// records that, and the model is called all the same.
func TestServicesSeeWhatVendorsAreSent(t *testing.T) {
	t.Parallel()
	cool := func(_ context.Context, _ schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error) {
		if !strings.Contains(string(req.Payload), `"model":"m"`) || req.RunID == "" || req.TurnID == "" {
			return schemas.HookAnswer{}, fmt.Errorf("asked %+v", req)
		}
		return schemas.HookAnswer{Payload: json.RawMessage(`{"temperature":0}`), Reason: "keep cool"}, nil
	}
	unseen := "the model's request was not made by this process, or was signed before it could be seen"
	for _, c := range []struct {
		name string
		sees bool
		svc  servicesFunc
		sent string
		want schemas.HookDecision
	}{
		{"replaced", true, cool, `{"temperature":0}`,
			schemas.HookDecision{Changed: []string{"payload"}, By: "svc", Reason: "keep cool"}},
		{"left", true, agree, `{"model":"m","temperature":1}`, schemas.HookDecision{By: "svc"}},
		{"not answered", true, func(context.Context, schemas.HookRef, schemas.HookRequest) (schemas.HookAnswer, error) {
			return schemas.HookAnswer{}, errors.New("away")
		}, `{"model":"m","temperature":1}`,
			schemas.HookDecision{Failures: []schemas.HookFailure{{Service: "svc", Error: "away"}}}},
		{"not to be seen", false, cool, `{"model":"m","temperature":1}`,
			schemas.HookDecision{Failures: []schemas.HookFailure{{Service: "svc", Error: unseen}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := &vendor{ModelFunc: says("done"), sees: c.sees}
			r := looptest.New(t, v, served(c.svc, schemas.HookBeforeProviderRequest))
			r.Deliver("p1", looptest.Prompt("go"))
			r.WantEnd(schemas.EndNoToolCalls)
			if d := cmp.Diff([]string{c.sent}, v.sent); d != "" {
				t.Errorf("sent (-want +got):\n%s", d)
			}
			c.want.Hook = schemas.HookBeforeProviderRequest
			if d := cmp.Diff([]*schemas.HookDecision{&c.want}, decisions(r)); d != "" {
				t.Errorf("decisions (-want +got):\n%s", d)
			}
		})
	}
}
