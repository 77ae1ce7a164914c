package driver_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// opens counts how often a host loads a session from its log.
func opens(n *atomic.Int32) func(*host.Options) {
	return func(o *host.Options) {
		open := o.Open
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			n.Add(1)
			return open(ctx, session)
		}
	}
}

// TestStoppedDeliveryFailsNoOther stops the delivery that drives during a model call. The session stays loaded, accepts
// commands, and continues when the message is redelivered.
func TestStoppedDeliveryFailsNoOther(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	m := looptest.NewBlockingModel()
	r := looptest.New(t, looptest.ModelFunc(m.Answer), opens(&opened))
	ctx, stop := context.WithCancel(t.Context())
	driving := make(chan error, 1)
	go func() { driving <- r.Host.Deliver(ctx, looptest.Command("p1", looptest.Prompt("go")), nil) }()
	<-m.Asked
	r.Deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
	stop()
	if err := <-driving; !errors.Is(err, context.Canceled) {
		t.Errorf("the stopped delivery ends with %v", err)
	}
	close(m.Free)
	r.Deliver("p1", looptest.Prompt("go"))
	r.WantEnd(schemas.EndNoToolCalls)
	if n := r.Count(schemas.EventRunResumed); n != 1 {
		t.Errorf("%d run_resumed, want 1: %v", n, r.Types())
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("the session was taken up %d times, want once", n)
	}
}

// TestStoppedDeliveryDoesNotAbortTheNext stops deliveries while a service is asked about their input, and redelivers
// their messages at once: stopping one delivery must not abort the run that the next one drives.
func TestStoppedDeliveryDoesNotAbortTheNext(t *testing.T) {
	t.Parallel()
	for range 300 {
		asked := make(chan struct{})
		var asks atomic.Int32
		r := looptest.New(t, looptest.ModelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage,
			error) {
			for range 20 {
				runtime.Gosched()
			}
			return looptest.Say("hi"), ctx.Err()
		}), func(o *host.Options) {
			o.Defaults.Hooks = []schemas.HookRef{{Hook: schemas.HookInput, Service: "s", TimeoutMs: 60_000}}
			o.Services = askFunc(func(ctx context.Context) {
				if asks.Add(1) == 1 {
					close(asked)
					<-ctx.Done()
				}
			})
		})
		ctx, stop := context.WithCancel(t.Context())
		driving := make(chan error, 1)
		go func() { driving <- r.Host.Deliver(ctx, looptest.Command("p1", looptest.Prompt("go")), nil) }()
		<-asked
		stop()
		if err := <-driving; !errors.Is(err, context.Canceled) {
			t.Fatalf("the stopped delivery ends with %v", err)
		}
		r.Deliver("p1", looptest.Prompt("go"))
		if r.WantEnd(schemas.EndNoToolCalls); t.Failed() {
			return
		}
	}
}

// askFunc is a service for all hooks that agrees to everything.
type askFunc func(ctx context.Context)

func (f askFunc) Ask(ctx context.Context, _ schemas.HookRef, _ schemas.HookRequest) (a schemas.HookAnswer, err error) {
	f(ctx)
	return a, nil
}

// TestWaitingDeliveryDrivesInPlaceOfAStoppedOne stops the delivery of one result during its hook. The delivery of the
// other result, which has waited, then drives.
func TestWaitingDeliveryDrivesInPlaceOfAStoppedOne(t *testing.T) { // alone: it looks at all goroutines
	asked := make(chan struct{})
	var opened, looks atomic.Int32
	r := looptest.New(t, looptest.ToolThenDone("a", "b"), opens(&opened), func(o *host.Options) {
		o.Hooks.AfterToolCall = func(ctx context.Context, _ driver.AfterToolCall) (driver.AfterToolCallResult, error) {
			if looks.Add(1) == 1 {
				close(asked)
				<-ctx.Done()
			}
			return driver.AfterToolCallResult{}, nil
		}
	})
	r.Deliver("p1", looptest.Prompt("go"))
	out := r.Tools.TakeAll()
	ctx, stop := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	id, result := looptest.AnswerTo(out[0], "one")
	go func() { first <- r.Host.Deliver(ctx, looptest.Command(id, result), nil) }()
	<-asked
	other, otherResult := looptest.AnswerTo(out[1], "two")
	go func() { second <- r.Host.Deliver(t.Context(), looptest.Command(other, otherResult), nil) }()
	waits := func(stack string) bool { return strings.Contains(stack, "[select") }
	for !slices.ContainsFunc(looptest.Stacks("driver.(*Driver).driveOrAwait("), waits) {
		runtime.Gosched()
	}
	stop()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the stopped delivery ends with %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the other delivery ends with %v", err)
	}
	r.Deliver(id, result)
	r.WantEnd(schemas.EndNoToolCalls)
	if n := r.Count(schemas.EventToolExecutionEnd); n != 2 || opened.Load() != 1 {
		t.Errorf("%d calls have ended, want 2; the session was taken up %d times", n, opened.Load())
	}
}

// stumbling is a queue whose first dispatch of a call fails.
type stumbling struct {
	*looptest.Queue
	fail  string
	panic bool
}

func (s *stumbling) Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error {
	if req.ToolCallID == s.fail {
		s.fail = ""
		if s.panic {
			panic("no luck")
		}
		return errors.New("no luck")
	}
	return s.Queue.Dispatch(ctx, req, again)
}

// TestFailedDispatchIsRetried wants the session to stay loaded and the calls before the failed one to be kept. When the
// message is redelivered, the failed call is dispatched with again set, because it may have been dispatched.
func TestFailedDispatchIsRetried(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	tools := &stumbling{Queue: looptest.NewQueue(), fail: "b"}
	r := looptest.New(t, looptest.ToolThenDone("a", "b", "c"), opens(&opened), func(o *host.Options) { o.Tools = tools })
	r.Tools = tools.Queue
	err := r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil)
	if err == nil || driver.Lost(err) {
		t.Fatalf("the delivery ends with %v", err)
	}
	wantDispatched(r, "a")
	if n := r.Host.Loaded(); n != 1 {
		t.Errorf("%d sessions are loaded, want 1", n)
	}
	r.Deliver("p1", looptest.Prompt("go"))
	for _, req := range wantDispatched(r, "a", "b", "c") {
		answer(r, req)
	}
	r.WantEnd(schemas.EndNoToolCalls)
	if want := []bool{false, true, true, true}; !slices.Equal(tools.Again, want) {
		t.Errorf("again = %v, want %v", tools.Again, want)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("the session was taken up %d times, want once", n)
	}
}

// TestStoppedDriverVerifiesOwnershipBeforeItContinues has another host end the run of a session that is still loaded
// here, in the middle of its work. When the message is redelivered, the stale state must dispatch nothing.
func TestStoppedDriverVerifiesOwnershipBeforeItContinues(t *testing.T) {
	t.Parallel()
	tools := &stumbling{Queue: looptest.NewQueue(), fail: "a"}
	r := looptest.New(t, looptest.ToolThenDone("a"), func(o *host.Options) { o.Tools = tools })
	if err := r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil); err == nil {
		t.Fatal("nothing failed")
	}
	here := r.Host
	r.Host = r.NewHost(looptest.ToolThenDone("a"))
	r.Deliver("p1", looptest.Prompt("go"))
	answer(r, wantDispatched(r, "a")[0])
	r.WantEnd(schemas.EndNoToolCalls)
	r.Host, r.Tools = here, tools.Queue
	err := here.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil)
	if errors.Is(err, driver.ErrConflict) { // what the first delivery had decided was still to be stored
		err = here.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil)
	}
	if err != nil {
		t.Error(err)
	}
	wantDispatched(r)
}

// TestUnencodableCommandFailsNoOther delivers such a command to a session at work.
func TestUnencodableCommandFailsNoOther(t *testing.T) {
	t.Parallel()
	var opened atomic.Int32
	m := looptest.NewBlockingModel()
	r := looptest.New(t, looptest.ModelFunc(m.Answer), opens(&opened))
	driving := make(chan error, 1)
	go func() { driving <- r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil) }()
	<-m.Asked
	bad := &schemas.CustomMessage{Role: "note", Raw: []byte(`{`)}
	input := schemas.Input{Messages: schemas.Messages{bad}}
	if err := r.Host.Deliver(t.Context(), looptest.Command("st1", &schemas.Steer{Input: input}), nil); err == nil {
		t.Error("a command that does not encode was taken in")
	}
	close(m.Free)
	if err := <-driving; err != nil {
		t.Errorf("the run's delivery ends with %v", err)
	}
	r.WantEnd(schemas.EndNoToolCalls)
	if n := opened.Load(); n != 1 {
		t.Errorf("the session was taken up %d times, want once", n)
	}
}

// badServices fail at every hook.
type badServices func() error

func (f badServices) Ask(context.Context, schemas.HookRef, schemas.HookRequest) (a schemas.HookAnswer, err error) {
	return a, f()
}

func TestHookServicesThatFailBreakNoSession(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]badServices{
		"an error": func() error { return errors.New("no luck") },
		"a panic":  func() error { panic("no luck") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened atomic.Int32
			r := looptest.New(t, looptest.ToolThenDone("t1"), opens(&opened), func(o *host.Options) {
				o.Services = fail
				for _, hook := range schemas.HookNames() {
					o.Defaults.Hooks = append(o.Defaults.Hooks, schemas.HookRef{Hook: hook, Service: "s", TimeoutMs: 1})
				}
			})
			r.Deliver("p1", looptest.Prompt("go"))
			r.WantEnd(schemas.EndNoToolCalls)
			if n := opened.Load(); n != 1 || r.Host.Loaded() != 1 {
				t.Errorf("the session was loaded %d times, and %d are in memory", n, r.Host.Loaded())
			}
		})
	}
}

// TestDeliveryStoppedWhileLoadingFailsNoOther stops the delivery that loads the session while another one waits for
// that.
func TestDeliveryStoppedWhileLoadingFailsNoOther(t *testing.T) {
	t.Parallel()
	opening := make(chan struct{}, 10)
	r := looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		return looptest.Say("hi"), nil
	}), func(o *host.Options) {
		open := o.Open
		first := true
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			opening <- struct{}{}
			if first {
				first = false
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return open(ctx, session)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- r.Host.Deliver(ctx, looptest.Command("p1", looptest.Prompt("one")), nil) }()
	<-opening
	go func() { second <- r.Host.Deliver(t.Context(), looptest.Command("p2", looptest.Prompt("two")), nil) }()
	stop()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the stopped delivery ends with %v", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the other delivery ends with %v", err)
	}
	r.WantEnd(schemas.EndNoToolCalls)
}

type panickingTracer struct{ on driver.SpanKind }

func (p *panickingTracer) Start(_ context.Context, s driver.SpanStart) driver.Span {
	if s.Kind == p.on {
		p.on = ""
		panic("no luck")
	}
	return quietSpan{}
}

type quietSpan struct{}

func (quietSpan) TraceParent() string { return "" }
func (quietSpan) End(driver.SpanEnd)  {}

// TestPanicDoesNotBlockTheSession makes each kind of a program's own code panic once. The delivery may fail, but the
// session is free, and the redelivered message completes.
func TestPanicDoesNotBlockTheSession(t *testing.T) {
	t.Parallel()
	once := func() func() {
		var done atomic.Bool
		return func() {
			if !done.Swap(true) {
				panic("no luck")
			}
		}
	}
	for name, change := range map[string]func(o *host.Options, fail func()){
		"Open": func(o *host.Options, fail func()) {
			open := o.Open
			o.Open = func(ctx context.Context, s string) (host.SessionLog, error) { fail(); return open(ctx, s) }
		},
		"OnEvent": func(o *host.Options, fail func()) { o.OnEvent = func(schemas.Event, *loop.State) { fail() } },
		"CheckModel": func(o *host.Options, fail func()) {
			o.CheckModel = func(schemas.ModelRef) error { fail(); return nil }
		},
		"Retryable": func(o *host.Options, fail func()) {
			o.Model = looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
				return &schemas.AssistantMessage{StopReason: schemas.StopError}, nil
			})
			o.Retryable = func(*schemas.AssistantMessage) bool { fail(); return false }
		},
		"Dispatch": func(o *host.Options, _ func()) {
			o.Tools = &stumbling{Queue: o.Tools.(*looptest.Queue), fail: "t1", panic: true}
		},
		"Tracer, under the lock":   func(o *host.Options, _ func()) { o.Tracer = &panickingTracer{on: driver.SpanTurn} },
		"Tracer, at the run":       func(o *host.Options, _ func()) { o.Tracer = &panickingTracer{on: driver.SpanRun} },
		"Tracer, at the model":     func(o *host.Options, _ func()) { o.Tracer = &panickingTracer{on: driver.SpanModelCall} },
		"Tracer, at the tool call": func(o *host.Options, _ func()) { o.Tracer = &panickingTracer{on: driver.SpanToolCall} },
		"Profiles": func(o *host.Options, fail func()) {
			o.Profile, o.Profiles = "p", profileFunc(func() schemas.Profile { fail(); return schemas.Profile{} })
		},
		"Toolbox": func(o *host.Options, fail func()) { o.Toolbox = panickingBox(fail) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := looptest.New(t, looptest.ToolThenDone("t1"), func(o *host.Options) { change(o, once()) })
			for _, c := range []schemas.Command{
				looptest.Command("set1", &schemas.SetModel{Model: schemas.ModelRef{ID: "m"}}),
				looptest.Command("p1", looptest.Prompt("go")),
			} {
				for range 3 {
					if err := r.Host.Deliver(t.Context(), c, func() {}); err == nil {
						break
					} else if !driver.Lost(err) {
						t.Errorf("the delivery ends with %v", err)
					}
				}
			}
			for _, req := range r.Tools.TakeAll() {
				answer(r, req)
			}
			var end schemas.TerminationReason
			for _, e := range r.Events() {
				if d, ok := e.Data.(*schemas.AgentEnd); ok {
					end = d.TerminationReason
				}
			}
			if end == "" {
				t.Errorf("the run did not end: %v", r.Types())
			}
			if n := r.Host.Loaded(); n > 1 {
				t.Errorf("%d sessions are loaded", n)
			}
		})
	}
}

type profileFunc func() schemas.Profile

func (f profileFunc) Profile(context.Context, string) (schemas.Profile, error) { return f(), nil }

type panickingBox func()

func (f panickingBox) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	f()
	return looptest.EchoBox{}.Definitions(ctx)
}

// TestInputHooksThatPanicAskNobody is about a driver without a host.
func TestInputHooksThatPanicAskNobody(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	log, err := r.Store.Open(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	d := driver.New(driver.Options{
		Deps: driver.Deps{Tools: r.Tools, Source: "/loopbus/test", Model: looptest.ModelFunc(
			func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
				return looptest.Say("hi"), nil
			})},
		Log:        log,
		Configure:  func(context.Context, string, loop.Settings) (c schemas.RunConfig, err error) { return c, nil },
		InputHooks: func(context.Context, string, loop.Settings) []schemas.HookRef { panic("no luck") },
	}, &loop.State{Session: "s1"})
	if err := d.Handle(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil); err != nil {
		t.Fatal(err)
	}
	r.WantEnd(schemas.EndNoToolCalls)
}
