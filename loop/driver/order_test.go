package driver_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// lazyLog stores nothing before it is flushed: what a slow disk looks like.
type lazyLog struct {
	*eventstore.MemoryLog
	mu   sync.Mutex
	held []schemas.Event
}

func (l *lazyLog) Append(_ context.Context, e schemas.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, e)
	return nil
}

func (l *lazyLog) Flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.held {
		if err := l.MemoryLog.Append(ctx, e); err != nil {
			return err
		}
	}
	l.held = nil
	return nil
}

func (l *lazyLog) Confirm(ctx context.Context, _ time.Time) error { return l.Flush(ctx) }

func lazily(store *eventstore.Memory) func(*driver.HostOptions) {
	return func(o *driver.HostOptions) {
		o.Open = func(ctx context.Context, session string) (driver.SessionLog, error) {
			log, err := store.Open(ctx, session)
			return &lazyLog{MemoryLog: log}, err
		}
	}
}

// watching calls see when a tool call is dispatched or an update goes out.
type watching struct {
	*queue
	see func(what string)
}

func (w watching) Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error {
	w.see("dispatch")
	return w.queue.Dispatch(ctx, req, again)
}

func (w watching) Update(context.Context, schemas.Update) { w.see("update") }
func (w watching) Settle(context.Context, string, uint64) {}

// TestNothingIsDoneBeforeItIsStored holds the order of things of docs/architecture.md on a log that stores as late as it may.
func TestNothingIsDoneBeforeItIsStored(t *testing.T) {
	r := newRig(t, nil)
	w := watching{queue: r.tools, see: func(what string) {
		want := map[string]schemas.EventType{"dispatch": schemas.EventToolExecutionStart, "update": schemas.EventMessageStart}[what]
		if r.count(want) == 0 {
			t.Errorf("%s before its %s was stored: %v", what, want, r.types())
		}
	}}
	r.host = r.newHost(toolThenDone("t1"), lazily(r.store), func(o *driver.HostOptions) { o.Tools, o.Live = w, w })
	r.deliver("p1", prompt("go"))
	if last := r.types()[len(r.types())-1]; last != "tool_execution_start" {
		t.Errorf("the prompt may be acknowledged, but the log ends with %s", last)
	}
	id, result := answerTo(r.tools.take(t), "ok")
	r.deliver(id, result)
	r.wantEnd(schemas.EndNoToolCalls)
	r.deliver("x1", &schemas.Abort{})
	if r.count(schemas.EventCommandRejected) != 1 {
		t.Error("a refusal may be acknowledged, but is not stored")
	}
}

// stuckLog stores nothing before the model is called.
type stuckLog struct {
	*eventstore.MemoryLog
	called <-chan struct{}
}

func (l *stuckLog) Flush(ctx context.Context) error {
	select {
	case <-l.called:
		return l.MemoryLog.Flush(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestTheModelCallDoesNotWaitForTheLog has a log that stores only once the model is called.
func TestTheModelCallDoesNotWaitForTheLog(t *testing.T) {
	called := make(chan struct{})
	var once sync.Once
	r := newRig(t, nil)
	r.host = r.newHost(modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		once.Do(func() { close(called) })
		return say("ok"), nil
	}), func(o *driver.HostOptions) {
		o.Open = func(ctx context.Context, session string) (driver.SessionLog, error) {
			log, err := r.store.Open(ctx, session)
			return &stuckLog{log, called}, err
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.host.Deliver(ctx, command("p1", prompt("go")), nil); err != nil {
		t.Fatalf("the model was not called: %v", err)
	}
	r.wantEnd(schemas.EndNoToolCalls)
}

// TestASteerIsStoredBeforeItIsAcknowledged has it arrive while another delivery drives.
func TestASteerIsStoredBeforeItIsAcknowledged(t *testing.T) {
	r := newRig(t, nil)
	calls := 0
	r.host = r.newHost(modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		if calls++; calls == 1 {
			r.deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
			if n := r.count(schemas.EventCommandAccepted); n != 2 {
				t.Errorf("the steer may be acknowledged, but %d commands are stored", n)
			}
		}
		return say("ok"), nil
	}), lazily(r.store))
	r.deliver("p1", prompt("go"))
}

// TestTheRuleOfRest wants the delivery that wakes a session to last until it rests, and those that come meanwhile not to.
func TestTheRuleOfRest(t *testing.T) {
	release := make(chan struct{})
	asked := make(chan struct{}, 1)
	r := newRig(t, modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		asked <- struct{}{}
		<-release
		return say("ok"), nil
	}))
	done := make(chan error, 1)
	go func() { done <- r.host.Deliver(t.Context(), command("p1", prompt("go")), nil) }()
	<-asked
	r.deliver("f1", &schemas.FollowUp{Input: schemas.Input{Text: "and then?"}}) // returns while the model is still asked
	select {
	case err := <-done:
		t.Fatalf("the waking delivery was over while the session was awake: %v", err)
	case <-time.After(20 * time.Millisecond): // nothing may come: there is no condition to wait for
	}
	close(release)
	<-asked
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.wantEnd(schemas.EndNoToolCalls)
}

// streaming says one word and ends once somebody was shown it.
type streaming struct{ shown chan struct{} }

func (m streaming) Stream(context.Context, schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		if !yield(schemas.StreamEvent{Type: schemas.StreamStart}, nil) ||
			!yield(schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: "hi"}, nil) {
			return
		}
		<-m.shown
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: say("hi")}, nil)
	}
}

// TestNoDeltaOvertakesItsMessage wants the first delta held until the log has the message it belongs to, and given out
// then without waiting for another.
func TestNoDeltaOvertakesItsMessage(t *testing.T) {
	r := newRig(t, nil)
	model := streaming{make(chan struct{})}
	var once sync.Once
	w := watching{queue: r.tools, see: func(string) {
		if types := r.types(); types[len(types)-1] != "message_start" {
			t.Errorf("a delta went out when the log was %v", types)
		}
		once.Do(func() { close(model.shown) })
	}}
	r.host = r.newHost(model, lazily(r.store), func(o *driver.HostOptions) { o.Live = w })
	r.deliver("p1", prompt("go"))
	r.wantEnd(schemas.EndNoToolCalls)
}
