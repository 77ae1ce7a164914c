package agent_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agent"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

func newAgent(t *testing.T, model driver.Model, change ...func(*agent.Options)) *agent.Agent {
	t.Helper()
	o := agent.Options{Model: schemas.ModelRef{ID: "m"}, Stream: model}
	for _, f := range change {
		f(&o)
	}
	a, err := agent.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func userSays(text string) schemas.Message {
	return &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}
}

var saysHi = looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
	reply := looptest.Say("hi")
	reply.Usage.TotalTokens = 7
	return reply, nil
})

func TestAgentResult(t *testing.T) {
	t.Parallel()
	r, err := newAgent(t, saysHi).Prompt(t.Context(), "hello")
	good := r.Reason == schemas.EndNoToolCalls && r.Text() == "hi" && r.Turns == 1 && r.Usage.TotalTokens == 7
	if err != nil || !good || len(r.Messages) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAgentReturnsHowARunFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model  looptest.ModelFunc
		change func(o *agent.Options)
		reason schemas.TerminationReason
		text   string
	}{
		"the model's reply": {model: func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			return &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: "no credit"}, nil
		}, reason: schemas.EndError, text: "no credit"},
		"the model's stream": {model: func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			return nil, errors.New("no line")
		}, reason: schemas.EndError, text: "no line"},
		"a panic": {model: func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			panic("no luck")
		},
			reason: schemas.EndError, text: "model panicked: no luck"},
		"a hook": {model: saysHi, change: func(o *agent.Options) {
			o.Hooks.TransformContext = func(context.Context, schemas.Messages) (schemas.Messages, error) {
				return nil, errors.New("no sense")
			}
		}, reason: schemas.EndError, text: "no sense"},
		"a limit": {model: looptest.ToolThenDone("t1"), change: func(o *agent.Options) {
			o.Limits.MaxTurns = 1
		}, reason: schemas.EndMaxTurns},
		"a time limit": {model: func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, change: func(o *agent.Options) {
			o.Limits.RunTimeoutMs = 20
		}, reason: schemas.TimeoutRun, text: context.Canceled.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, c.model, func(o *agent.Options) {
				if c.change != nil {
					c.change(o)
				}
			})
			r, err := a.Prompt(t.Context(), "hello")
			var failed *agent.RunError
			if !errors.As(err, &failed) || failed.Reason != c.reason || failed.Message != c.text || r.Reason != c.reason {
				t.Errorf("%+v, %v", r, err)
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("the error says %q", err)
			}
		})
	}
}

// TestAgentIsBusy prompts an agent during a model call, waits for it with a context that ends, and releases it.
func TestAgentIsBusy(t *testing.T) {
	t.Parallel()
	m := looptest.NewBlockingModel()
	a := newAgent(t, looptest.ModelFunc(m.Answer))
	done := make(chan error, 1)
	go func() {
		_, err := a.Prompt(t.Context(), "hello")
		done <- err
	}()
	<-m.Asked
	for _, f := range []func() (agent.Result, error){
		func() (agent.Result, error) { return a.Prompt(t.Context(), "hello?") },
		func() (agent.Result, error) { return a.PromptMessages(t.Context(), userSays("hello?")) },
		func() (agent.Result, error) { return a.Continue(t.Context()) },
	} {
		if _, err := f(); !errors.Is(err, agent.ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.WaitForIdle(impatient); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting without patience gives %v", err)
	}
	close(m.Free)
	if err := a.WaitForIdle(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAgentRefuses(t *testing.T) {
	t.Parallel()
	a := newAgent(t, saysHi)
	_, err := a.Continue(t.Context())
	var refused *agent.RejectedError
	if !errors.As(err, &refused) || refused.Code != schemas.RejectState || err.Error() != loop.TextNoMessages ||
		errors.Is(err, agent.ErrBusy) {
		t.Errorf("continuing from nothing gives %v", err)
	}
	for range loop.MaxQueued {
		if err := a.Steer(t.Context(), userSays("left")); err != nil {
			t.Fatal(err)
		}
	}
	err = a.FollowUp(t.Context(), userSays("right"))
	if !errors.As(err, &refused) || refused.Code != schemas.RejectQueueFull {
		t.Errorf("a full queue gives %v", err)
	}
}

func TestAgentAbortedByItsContext(t *testing.T) {
	t.Parallel()
	m := looptest.NewBlockingModel()
	a := newAgent(t, looptest.ModelFunc(m.Answer))
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	go func() {
		<-m.Asked
		cancel(enough)
	}()
	_, err := a.Prompt(ctx, "hello")
	var ended *agent.RunError
	if !errors.As(err, &ended) || !errors.Is(err, enough) {
		t.Errorf("got %v, want the cause", err)
	}
}

// TestAgentLosesNoErrorOfAListener has a listener fail when the run can no longer fail because of it.
func TestAgentLosesNoErrorOfAListener(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"an error": func() error { return errors.New("disk full") },
		"a panic":  func() error { panic("disk full") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, saysHi)
			a.Subscribe(func(_ context.Context, e agentevent.Event) error {
				if e.Type == schemas.EventAgentEnd {
					return fail()
				}
				return nil
			})
			r, err := a.Prompt(t.Context(), "hello")
			if err == nil || !strings.Contains(err.Error(), "disk full") || r.Text() != "hi" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// A listener that fails at every event of one type, whichever, fails the run once. It ends.
func TestAListenerThatAlwaysFailsEndsTheRun(t *testing.T) {
	t.Parallel()
	for _, at := range []schemas.EventType{schemas.EventAgentStart, schemas.EventTurnStart, schemas.EventMessageStart,
		schemas.EventMessageEnd, schemas.EventTurnEnd, schemas.EventAgentEnd, ""} {
		a, n := newAgent(t, saysHi), 0
		a.Subscribe(func(_ context.Context, e agentevent.Event) error {
			if n++; n > 100 {
				runtime.Goexit() // or else the test would not end
			}
			if at == "" || e.Type == at {
				return errors.New("disk full")
			}
			return nil
		})
		ended := make(chan error, 1)
		go func() {
			defer close(ended)
			_, err := a.Prompt(t.Context(), "hello")
			ended <- err
		}()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "disk full") || n > 20 {
			t.Errorf("%s: %d events, %v", at, n, err)
		}
	}
}

// TestAgentReturnsErrorsOfItsLog has the log refuse every event from some event on.
func TestAgentReturnsErrorsOfItsLog(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	for _, at := range []schemas.EventType{
		schemas.EventCommandAccepted, schemas.EventAgentStart, schemas.EventMessageEnd, schemas.EventAgentEnd,
	} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			store := eventstore.NewMemory()
			log, err := store.Open(t.Context(), "agent")
			if err != nil {
				t.Fatal(err)
			}
			a := newAgent(t, saysHi, func(o *agent.Options) { o.Log = log })
			store.OnAppend = func(e schemas.Event, stored bool) error {
				if !stored && e.Type() == at {
					return full
				}
				return nil
			}
			if _, err := a.Prompt(t.Context(), "hello"); !errors.Is(err, full) {
				t.Errorf("prompting gives %v", err)
			}
			if at == schemas.EventCommandAccepted {
				if err := a.Steer(t.Context(), userSays("left")); !errors.Is(err, full) {
					t.Errorf("steering gives %v", err)
				}
				if err := a.Reset(t.Context()); !errors.Is(err, full) {
					t.Errorf("resetting gives %v", err)
				}
			}
		})
	}
}
