package driver_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// TestAStaleHostDoesNotSwallowAnAnswer delivers a call's result to a host whose state is from before the call.
func TestAStaleHostDoesNotSwallowAnAnswer(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		return looptest.Say("hi"), nil
	}))
	stale := r.Host
	r.Deliver("p1", looptest.Prompt("one"))

	r.Host = r.NewHost(looptest.ToolThenDone("t1"))
	r.Deliver("p2", looptest.Prompt("two"))
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")

	r.Host = stale
	if err := r.Host.Deliver(t.Context(), looptest.Command(id, result), nil); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	r.Deliver(id, result)
	if n := r.Count(schemas.EventAgentEnd); n != 2 {
		t.Errorf("%d runs have ended, want 2: %v", n, r.Types())
	}
}

// jumping is a clock that a test sets forward, as a suspended process sees its clock.
type jumping struct {
	driver.SystemClock
	mu  sync.Mutex
	off time.Duration
}

func (j *jumping) Now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Now().Add(j.off)
}

func (j *jumping) jump(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.off += d
}

// asked is a model that only reports that it was called.
type asked func()

func (f asked) Stream(context.Context, schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	f()
	return func(func(schemas.StreamEvent, error) bool) {}
}

// TestASuspendedHostCallsNoModel suspends the host right before it calls the model, and has another one take over.
func TestASuspendedHostCallsNoModel(t *testing.T) {
	t.Parallel()
	clock, calls := new(jumping), 0
	r := looptest.New(t, nil)
	next := r.NewHost(looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		return looptest.Say("hi"), nil
	}))
	suspended := r.NewHost(asked(func() { calls++ }), func(o *host.Options) {
		o.Clock = clock
		o.Hooks.TransformContext = func(ctx context.Context, m schemas.Messages) (schemas.Messages, error) {
			clock.jump(time.Minute)
			return m, next.Deliver(ctx, looptest.Command("p1", looptest.Prompt("go")), nil)
		}
	})
	err := suspended.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil)
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if calls != 0 {
		t.Error("the host that had lost the session called the model")
	}
	r.WantEnd(schemas.EndNoToolCalls)
}

// flushed runs a function right after a flush.
type flushed struct {
	*eventstore.Log
	then func()
}

func (l flushed) Flush(ctx context.Context) error {
	err := l.Log.Flush(ctx)
	l.then()
	return err
}

// TestASuspendedHostDispatchesNothing suspends the host after everything before the call is stored and before the call
// is dispatched.
func TestASuspendedHostDispatchesNothing(t *testing.T) {
	t.Parallel()
	clock := new(jumping)
	r := looptest.New(t, nil)
	next := r.NewHost(looptest.ToolThenDone("t1"))
	suspend := sync.OnceFunc(func() {
		clock.jump(time.Minute)
		if err := next.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil); err != nil {
			t.Error(err)
		}
		id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
		if err := next.Deliver(t.Context(), looptest.Command(id, result), nil); err != nil {
			t.Error(err)
		}
	})
	atTheCall := func() { // earlier flushes store the prompt, whenever they come
		if r.Count(schemas.EventToolExecutionStart) > 0 {
			suspend()
		}
	}
	r.Host = r.NewHost(looptest.ToolThenDone("t1"), func(o *host.Options) {
		o.Clock = clock
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			log, err := r.Store.Open(ctx, session)
			return flushed{log, atTheCall}, err
		}
	})
	err := r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil)
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if n := len(r.Tools.Again); n != 1 {
		t.Errorf("the call was dispatched %d times", n)
	}
	r.WantEnd(schemas.EndNoToolCalls)
}

// unsure suspends its process while it waits for a confirmation.
type unsure struct {
	*eventstore.Log
	confirm func(since time.Time)
}

func (l unsure) Confirm(ctx context.Context, since time.Time) error {
	err := l.Log.Confirm(ctx, since)
	l.confirm(since)
	return err
}

// TestSuspensionDuringConfirmIsVerified suspends a host a second time, when it has the answer that it owned the session
// before.
func TestSuspensionDuringConfirmIsVerified(t *testing.T) {
	t.Parallel()
	clock := new(jumping)
	r := looptest.New(t, nil)
	var asked []time.Time
	r.Host = r.NewHost(looptest.ToolThenDone(), func(o *host.Options) {
		o.Clock = clock
		o.Hooks.TransformContext = func(_ context.Context, m schemas.Messages) (schemas.Messages, error) {
			clock.jump(time.Minute)
			return m, nil
		}
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			log, err := r.Store.Open(ctx, session)
			return unsure{log, func(since time.Time) {
				if asked = append(asked, since); len(asked) == 1 {
					clock.jump(time.Minute)
				}
			}}, err
		}
	})
	r.Deliver("p1", looptest.Prompt("go"))
	if len(asked) < 2 || asked[1].Sub(asked[0]) < time.Minute {
		t.Errorf("confirmed since %v, want a second time for the minute in between", asked)
	}
}

// A clock that is set back during a run makes no event that readers of the log refuse.
func TestClockIsSetBackDuringARun(t *testing.T) {
	t.Parallel()
	clock := new(jumping)
	model := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		clock.jump(-time.Hour)
		return looptest.Say("done"), nil
	})
	r := looptest.New(t, model, func(o *host.Options) { o.Clock = clock })
	r.Deliver("p1", looptest.Prompt("go"))
	r.WantEnd(schemas.EndNoToolCalls)
	for _, e := range r.Events() {
		raw, err := schemas.Marshal(e.Data)
		if err == nil {
			err = schemas.ValidateEvent(e.Type(), raw)
		}
		if err != nil {
			t.Errorf("event %d: %v", e.Seq, err)
		}
	}
}
