package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// decisions returns the hook decisions of the log.
func decisions(r *looptest.Rig) (all []*schemas.HookDecision) {
	for _, e := range r.Events() {
		if d, ok := e.Data.(*schemas.HookDecision); ok {
			all = append(all, d)
		}
	}
	return all
}

// before installs a function of the program for the hook before_tool_call.
func before(f func(c driver.BeforeToolCall) (driver.BeforeToolCallResult, error)) func(*host.Options) {
	return func(o *host.Options) {
		o.Hooks.BeforeToolCall = func(_ context.Context, c driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			return f(c)
		}
	}
}

// TestAFunctionIsAskedAheadOfServices has a function and a service edit the arguments of one call: the service gets
// what the function made of them, and one decision names both.
func TestAFunctionIsAskedAheadOfServices(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"),
		before(func(driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			return driver.BeforeToolCallResult{Args: json.RawMessage(`{"v":"function"}`), By: "guard"}, nil
		}),
		served(func(_ context.Context, _ schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error) {
			if string(req.Args) != `{"v":"function"}` {
				t.Errorf("the service is shown %s", req.Args)
			}
			return schemas.HookAnswer{Args: json.RawMessage(`{"v":"service"}`)}, nil
		}, schemas.HookBeforeToolCall))
	r.Deliver("p1", looptest.Prompt("go"))
	if got := string(r.Tools.Take(t).Arguments); got != `{"v":"service"}` {
		t.Errorf("dispatched with %s", got)
	}
	if all := decisions(r); len(all) != 1 || all[0].By != "guard, svc" || string(all[0].Args) != `{"v":"service"}` {
		t.Errorf("decisions %+v", all)
	}
}

// TestNoServiceIsAskedAfterABlock also tests the text of the refusal, which is that of the function, its error or
// panic.
func TestNoServiceIsAskedAfterABlock(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func(driver.BeforeToolCall) (driver.BeforeToolCallResult, error){
		"not this one": func(driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			return driver.BeforeToolCallResult{Block: true, Reason: "not this one"}, nil
		},
		"Tool execution was blocked": func(driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			return driver.BeforeToolCallResult{Block: true}, nil
		},
		"no idea": func(driver.BeforeToolCall) (a driver.BeforeToolCallResult, err error) {
			return a, errors.New("no idea")
		},
		"beforeToolCall panicked: no luck": func(driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
			panic("no luck")
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := looptest.New(t, looptest.ToolThenDone("t1"), before(f),
				served(func(context.Context, schemas.HookRef, schemas.HookRequest) (a schemas.HookAnswer, err error) {
					t.Error("the service was asked")
					return a, nil
				}, schemas.HookBeforeToolCall))
			r.Deliver("p1", looptest.Prompt("go"))
			if d := cmp.Diff([]string{want}, results(r)); d != "" {
				t.Errorf("results (-want +got):\n%s", d)
			}
		})
	}
}

// TestWhatAFunctionChangesIsInTheLog has functions see everything and change some of it: only changes are recorded.
func TestWhatAFunctionChangesIsInTheLog(t *testing.T) {
	t.Parallel()
	yes := true
	for name, c := range map[string]struct {
		add  schemas.Messages // to what the model sees
		a    driver.AfterToolCallResult
		err  error
		want map[schemas.HookName][]string
		text string
	}{
		"nothing": {text: "ok"},
		"what the model sees": {
			add:  schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "and this"}}}},
			want: map[schemas.HookName][]string{schemas.HookContext: {"messages"}}, text: "ok",
		},
		"a result": {
			a:    driver.AfterToolCallResult{IsError: &yes},
			want: map[schemas.HookName][]string{schemas.HookAfterToolCall: {"isError"}}, text: "ok",
		},
		"a result, by failing": {err: errors.New("no idea"), text: "no idea", want: map[schemas.HookName][]string{
			schemas.HookAfterToolCall: {"content", "details", "isError", "terminate"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := looptest.New(t, looptest.ToolThenDone("t1"), func(o *host.Options) {
				o.Hooks.TransformContext = func(_ context.Context, m schemas.Messages) (schemas.Messages, error) {
					return append(m, c.add...), nil
				}
				o.Hooks.AfterToolCall = func(context.Context, driver.AfterToolCall) (driver.AfterToolCallResult, error) {
					return c.a, c.err
				}
			})
			r.Deliver("p1", looptest.Prompt("go"))
			id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
			r.Deliver(id, result)
			r.WantEnd(schemas.EndNoToolCalls)
			var got map[schemas.HookName][]string
			for _, d := range decisions(r) {
				if got == nil {
					got = make(map[schemas.HookName][]string)
				}
				got[d.Hook] = d.Changed
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("decisions (-want +got):\n%s", d)
			}
			if d := cmp.Diff([]string{c.text}, results(r)); d != "" {
				t.Errorf("results (-want +got):\n%s", d)
			}
		})
	}
}
