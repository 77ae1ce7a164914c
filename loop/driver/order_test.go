package driver_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// lazyLog stores nothing before it is flushed, like a slow disk.
type lazyLog struct {
	*eventstore.Log
	mu       sync.Mutex
	gathered []schemas.Event
}

func (l *lazyLog) Append(_ context.Context, e schemas.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathered = append(l.gathered, e)
	return nil
}

func (l *lazyLog) Flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.gathered {
		if err := l.Log.Append(ctx, e); err != nil {
			return err
		}
	}
	l.gathered = nil
	return l.Log.Flush(ctx)
}

func (l *lazyLog) Send() {} // without a flush nothing is stored

func (l *lazyLog) Confirm(ctx context.Context, _ time.Time) error { return l.Flush(ctx) }

func lazily(store *eventstore.Memory) func(*host.Options) {
	return func(o *host.Options) {
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			log, err := store.Open(ctx, session)
			return &lazyLog{Log: log}, err
		}
	}
}

// watching is called when a tool call is dispatched or an update is published.
type watching struct {
	*looptest.Queue
	see func(what string)
}

func (w watching) Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error {
	w.see("dispatch")
	return w.Queue.Dispatch(ctx, req, again)
}

func (w watching) Update(context.Context, schemas.Update) { w.see("update") }
func (w watching) Flush(context.Context, string, uint64)  {}

// TestNothingIsDoneBeforeItIsStored tests the order of docs/architecture.md on a log that stores as late as it may.
func TestNothingIsDoneBeforeItIsStored(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	w := watching{Queue: r.Tools, see: func(what string) {
		want := map[string]schemas.EventType{"dispatch": schemas.EventToolExecutionStart,
			"update": schemas.EventMessageStart}[what]
		if r.Count(want) == 0 {
			t.Errorf("%s before its %s was stored: %v", what, want, r.Types())
		}
	}}
	r.Host = r.NewHost(looptest.ToolThenDone("t1"), lazily(r.Store), func(o *host.Options) { o.Tools, o.Live = w, w })
	r.Deliver("p1", looptest.Prompt("go"))
	if last := r.Types()[len(r.Types())-1]; last != "tool_execution_start" {
		t.Errorf("the prompt may be acknowledged, but the log ends with %s", last)
	}
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
	r.Deliver(id, result)
	r.WantEnd(schemas.EndNoToolCalls)
	r.Deliver("x1", &schemas.Abort{})
	if r.Count(schemas.EventCommandRejected) != 1 {
		t.Error("a refusal may be acknowledged, but is not stored")
	}
}

// stuckLog stores nothing before the model is called.
type stuckLog struct {
	*eventstore.Log
	called <-chan struct{}
}

func (l *stuckLog) Flush(ctx context.Context) error {
	select {
	case <-l.called:
		return l.Log.Flush(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *stuckLog) Send() {
	select {
	case <-l.called:
		l.Log.Send()
	default:
	}
}

// TestTheModelCallDoesNotWaitForTheLog has a log that stores only after the model is called.
func TestTheModelCallDoesNotWaitForTheLog(t *testing.T) {
	t.Parallel()
	called := make(chan struct{})
	var once sync.Once
	r := looptest.New(t, nil)
	r.Host = r.NewHost(looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		once.Do(func() { close(called) })
		return looptest.Say("ok"), nil
	}), func(o *host.Options) {
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			log, err := r.Store.Open(ctx, session)
			return &stuckLog{log, called}, err
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Host.Deliver(ctx, looptest.Command("p1", looptest.Prompt("go")), nil); err != nil {
		t.Fatalf("the model was not called: %v", err)
	}
	r.WantEnd(schemas.EndNoToolCalls)
}

// TestASteerIsStoredBeforeItIsAcknowledged delivers a steer while another delivery drives.
func TestASteerIsStoredBeforeItIsAcknowledged(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	calls := 0
	r.Host = r.NewHost(looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		if calls++; calls == 1 {
			r.Deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
			if n := r.Count(schemas.EventCommandAccepted); n != 2 {
				t.Errorf("the steer may be acknowledged, but %d commands are stored", n)
			}
		}
		return looptest.Say("ok"), nil
	}), lazily(r.Store))
	r.Deliver("p1", looptest.Prompt("go"))
}

// TestTheRuleOfRest wants the delivery that wakes a session to last until the session rests, and other deliveries to
// end before.
func TestTheRuleOfRest(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	asked := make(chan struct{}, 1)
	r := looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		asked <- struct{}{}
		<-release
		return looptest.Say("ok"), nil
	}))
	done := make(chan error, 1)
	go func() { done <- r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil) }()
	<-asked
	r.Deliver("f1", &schemas.FollowUp{Input: schemas.Input{Text: "and then?"}}) // returns while the model is still asked
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
	r.WantEnd(schemas.EndNoToolCalls)
}

// streaming streams one word and ends after a viewer got it.
type streaming struct{ shown chan struct{} }

func (m streaming) Stream(context.Context, schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		if !yield(schemas.StreamEvent{Type: schemas.StreamStart}, nil) ||
			!yield(schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: "hi"}, nil) {
			return
		}
		<-m.shown
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: looptest.Say("hi")}, nil)
	}
}

// TestNoDeltaOvertakesItsMessage wants the first delta to be buffered until its message is stored, and then to be
// published without waiting for another delta.
func TestNoDeltaOvertakesItsMessage(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	model := streaming{make(chan struct{})}
	var once sync.Once
	w := watching{Queue: r.Tools, see: func(string) {
		if types := r.Types(); types[len(types)-1] != "message_start" {
			t.Errorf("a delta went out when the log was %v", types)
		}
		once.Do(func() { close(model.shown) })
	}}
	r.Host = r.NewHost(model, lazily(r.Store), func(o *host.Options) { o.Live = w })
	r.Deliver("p1", looptest.Prompt("go"))
	r.WantEnd(schemas.EndNoToolCalls)
}

// gatedLog is a log whose flushes end when gate is closed.
type gatedLog struct {
	driver.Log
	flushing, gate chan struct{}
}

func (l gatedLog) Flush(ctx context.Context) error {
	l.flushing <- struct{}{}
	<-l.gate
	return l.Log.Flush(ctx)
}

// A driver that was given up acknowledges nothing, although its commit is stored in the end: the driver that the host
// has loaded in its place does not know that commit, and may rest although the command gave it work.
func TestDriverThatWasGivenUpAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	log, err := eventstore.NewMemory().Open(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	gated := gatedLog{log, make(chan struct{}, 1), make(chan struct{})}
	d := driver.New(driver.Options{Deps: driver.Deps{Source: "/loopbus/runner/test"}, Log: gated},
		&loop.State{Session: "s1"})
	handled := make(chan error, 1)
	go func() {
		handled <- d.Handle(t.Context(), looptest.Command("l1", &schemas.SetThinkingLevel{ThinkingLevel: "low"}), nil)
	}()
	<-gated.flushing
	cause := errors.New("another delivery could not store what it had decided")
	d.GiveUp(cause)
	close(gated.gate)
	if err := <-handled; !errors.Is(err, cause) {
		t.Errorf("the delivery ended with %v, want %v", err, cause)
	}
}
