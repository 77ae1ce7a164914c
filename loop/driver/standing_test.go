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
	"github.com/loopbus/loopbus/schemas"
)

// TestAStaleHostDoesNotSwallowAnAnswer has a call's result come back to a host that knows the session from before the
// call was made.
func TestAStaleHostDoesNotSwallowAnAnswer(t *testing.T) {
	r := newRig(t, modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("hi"), nil }))
	stale := r.host
	r.deliver("p1", prompt("one"))

	r.host = r.newHost(toolThenDone("t1"))
	r.deliver("p2", prompt("two"))
	id, result := answerTo(r.tools.take(t), "ok")

	r.host = stale
	if err := r.host.Deliver(t.Context(), command(id, result), nil); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	r.deliver(id, result)
	if n := r.count(schemas.EventAgentEnd); n != 2 {
		t.Errorf("%d runs have ended, want 2: %v", n, r.types())
	}
}

// jumping is a clock that is set forward by hand: what a process sees that was suspended.
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

// asked is a model that only tells that it was called.
type asked func()

func (f asked) Stream(context.Context, schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	f()
	return func(func(schemas.StreamEvent, error) bool) {}
}

// TestASuspendedHostCallsNoModel suspends the host right before the model would be called, and has another one take over
// meanwhile.
func TestASuspendedHostCallsNoModel(t *testing.T) {
	clock, calls := new(jumping), 0
	r := newRig(t, nil)
	next := r.newHost(modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("hi"), nil }))
	suspended := r.newHost(asked(func() { calls++ }), func(o *driver.HostOptions) {
		o.Clock = clock
		o.Hooks.TransformContext = func(ctx context.Context, m schemas.Messages) (schemas.Messages, error) {
			clock.jump(time.Minute)
			return m, next.Deliver(ctx, command("p1", prompt("go")), nil)
		}
	})
	err := suspended.Deliver(t.Context(), command("p1", prompt("go")), nil)
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if calls != 0 {
		t.Error("the host that had lost the session called the model")
	}
	r.wantEnd(schemas.EndNoToolCalls)
}

// flushed runs something right after a flush.
type flushed struct {
	*eventstore.MemoryLog
	then func()
}

func (l flushed) Flush(ctx context.Context) error {
	err := l.MemoryLog.Flush(ctx)
	l.then()
	return err
}

// TestASuspendedHostDispatchesNothing suspends the host when everything before the call is stored and the call itself
// would be handed over.
func TestASuspendedHostDispatchesNothing(t *testing.T) {
	clock := new(jumping)
	r := newRig(t, nil)
	next := r.newHost(toolThenDone("t1"))
	suspend := sync.OnceFunc(func() {
		clock.jump(time.Minute)
		if err := next.Deliver(t.Context(), command("p1", prompt("go")), nil); err != nil {
			t.Error(err)
		}
		id, result := answerTo(r.tools.take(t), "ok")
		if err := next.Deliver(t.Context(), command(id, result), nil); err != nil {
			t.Error(err)
		}
	})
	atTheCall := func() { // earlier flushes store the prompt, whenever they come
		if r.count(schemas.EventToolExecutionStart) > 0 {
			suspend()
		}
	}
	r.host = r.newHost(toolThenDone("t1"), func(o *driver.HostOptions) {
		o.Clock = clock
		o.Open = func(ctx context.Context, session string) (driver.SessionLog, error) {
			log, err := r.store.Open(ctx, session)
			return flushed{log, atTheCall}, err
		}
	})
	err := r.host.Deliver(t.Context(), command("p1", prompt("go")), nil)
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if n := len(r.tools.again); n != 1 {
		t.Errorf("the call was handed over %d times", n)
	}
	r.wantEnd(schemas.EndNoToolCalls)
}

// doubted suspends its process while it waits for a confirmation.
type doubted struct {
	*eventstore.MemoryLog
	confirm func(since time.Time)
}

func (l doubted) Confirm(ctx context.Context, since time.Time) error {
	err := l.MemoryLog.Confirm(ctx, since)
	l.confirm(since)
	return err
}

// TestASuspensionWhileConfirmingIsConfirmedToo suspends a host a second time, when it has the answer that the session was
// its own before.
func TestASuspensionWhileConfirmingIsConfirmedToo(t *testing.T) {
	clock := new(jumping)
	r := newRig(t, nil)
	var asked []time.Time
	r.host = r.newHost(toolThenDone(), func(o *driver.HostOptions) {
		o.Clock = clock
		o.Hooks.TransformContext = func(_ context.Context, m schemas.Messages) (schemas.Messages, error) {
			clock.jump(time.Minute)
			return m, nil
		}
		o.Open = func(ctx context.Context, session string) (driver.SessionLog, error) {
			log, err := r.store.Open(ctx, session)
			return doubted{log, func(since time.Time) {
				if asked = append(asked, since); len(asked) == 1 {
					clock.jump(time.Minute)
				}
			}}, err
		}
	})
	r.deliver("p1", prompt("go"))
	if len(asked) < 2 || asked[1].Sub(asked[0]) < time.Minute {
		t.Errorf("confirmed since %v, want a second time for the minute in between", asked)
	}
}
