package driver_test

import (
	"context"
	"encoding/json"
	"regexp"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// spoiler changes everything that a program's own code gets and may change, at once and in goroutines that run while
// the session continues: everything but messages and events.
type spoiler struct{ work sync.WaitGroup }

func (s *spoiler) spoil(f func()) {
	f()
	s.work.Go(f)
}

func (s *spoiler) settings(set loop.Settings) {
	s.spoil(func() {
		*set.Model, *set.SystemPrompt = schemas.ModelRef{ID: "spoiled"}, "spoiled"
		set.Tools[0], set.Fallbacks[0].ID = "spoiled", "spoiled"
	})
}

func (s *spoiler) raw(raw json.RawMessage) { s.spoil(func() { clear(raw) }) }

func (s *spoiler) context(c driver.ContextView) {
	s.spoil(func() {
		clear(c.Messages)
		clear(c.Tools)
	})
}

func (s *spoiler) Ask(_ context.Context, _ schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error) {
	s.spoil(func() { clear(req.Messages) })
	s.raw(req.Args)
	if req.Result != nil {
		s.result(*req.Result)
	}
	return schemas.HookAnswer{}, nil
}

func (s *spoiler) result(r schemas.ToolResult) {
	s.spoil(func() { clear(r.Content) })
	s.raw(r.Details)
}

func (s *spoiler) before(_ context.Context, c driver.BeforeToolCall) (a driver.BeforeToolCallResult, err error) {
	s.context(c.Context)
	s.raw(c.Args)
	s.raw(c.ToolCall.Arguments)
	return a, nil
}

func (s *spoiler) after(_ context.Context, c driver.AfterToolCall) (a driver.AfterToolCallResult, err error) {
	s.context(c.Context)
	s.raw(c.Args)
	s.raw(c.ToolCall.Arguments)
	s.result(c.Result)
	return a, nil
}

func (s *spoiler) stop(_ context.Context, c driver.TurnContext) (bool, error) {
	s.context(c.Context)
	s.spoil(func() { clear(c.NewMessages) })
	return false, nil
}

var timestamps = regexp.MustCompile(`"timestamp":\d+`)

// TestHooksCannotChangeTheState calls the spoiler in every function of the program, and wants the same log as without
// it. It is mainly for the race detector.
func TestHooksCannotChangeTheState(t *testing.T) {
	t.Parallel()
	play := func(s *spoiler) (types []string, texts []string) {
		r := looptest.New(t, nil)
		log, err := r.Store.Open(t.Context(), "s1")
		if err != nil {
			t.Fatal(err)
		}
		refs := []schemas.HookRef{}
		for _, hook := range schemas.HookNames() {
			refs = append(refs, schemas.HookRef{Hook: hook, Service: "s", TimeoutMs: 1000})
		}
		tools := []schemas.ToolDefinition{{Name: "echo"}}
		o := driver.Options{
			Deps: driver.Deps{Tools: r.Tools, Source: "/loopbus/test", Model: looptest.ToolThenDone("a", "b"),
				Services: badServices(func() error { return nil })},
			Log: log,
			Configure: func(_ context.Context, _ string, set loop.Settings) (schemas.RunConfig, error) {
				model, prompt := *set.Model, *set.SystemPrompt
				if s != nil {
					s.settings(set)
				}
				return schemas.RunConfig{Model: model, SystemPrompt: prompt, Tools: tools, Hooks: refs}, nil
			},
			InputHooks: func(_ context.Context, _ string, set loop.Settings) []schemas.HookRef {
				if s != nil {
					s.settings(set)
				}
				return refs
			},
		}
		o.Hooks.BeforeToolCall = func(context.Context, driver.BeforeToolCall) (a driver.BeforeToolCallResult, err error) {
			return a, nil // it is recorded that it was asked
		}
		if s != nil {
			o.Services = s
			o.Hooks = driver.Hooks{BeforeToolCall: s.before, AfterToolCall: s.after, ShouldStopAfterTurn: s.stop}
			o.OnEvent = func(e schemas.Event, _ *loop.State) { s.spoil(func() { _, _ = json.Marshal(e.Data) }) }
		}
		d := driver.New(o, &loop.State{Session: "s1"})
		deliver := func(id string, data schemas.CommandData) {
			if err := d.Handle(t.Context(), looptest.Command(id, data), nil); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
		}
		m := schemas.ModelRef{ID: "m"}
		deliver("m", &schemas.SetModel{Model: m, Fallbacks: []schemas.ModelRef{m}})
		deliver("s", &schemas.SetSystemPrompt{SystemPrompt: "Be brief."})
		deliver("t", &schemas.SetTools{Tools: []string{"echo"}})
		for _, id := range []string{"p1", "p2"} {
			deliver(id, looptest.Prompt("go"))
			for _, req := range r.Tools.TakeAll() {
				answer, result := looptest.AnswerTo(req, "ok")
				result.Result.Details = json.RawMessage(`{"n":1}`)
				deliver(answer, result)
			}
		}
		if s != nil {
			s.work.Wait()
		}
		d.View(func(state *loop.State) {
			raw, err := json.Marshal(state.Settings)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(raw))
			if raw, err = json.Marshal(state.Config); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(raw))
			for _, entry := range state.Messages {
				if raw, err = json.Marshal(entry.Message); err != nil {
					t.Fatal(err)
				}
				texts = append(texts, timestamps.ReplaceAllString(string(raw), ""))
			}
		})
		return r.Types(), texts
	}
	wantTypes, wantTexts := play(nil)
	types, texts := play(new(spoiler))
	if d := cmp.Diff(wantTypes, types); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantTexts, texts); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
}
