package bridge

import (
	"context"
	"fmt"
	"iter"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// A Loader returns the state of a session at some event, the newest or an earlier one. The caller owns the state.
// With snapshots it need not read the whole log.
type Loader func(ctx context.Context, session string) (*loop.State, error)

// Follower folds the log of a session while following it. It is not safe for concurrent use. Its zero State is the
// one before the first event.
type Follower struct {
	Session *client.Session
	// Load provides the state that [Follower.Open] starts from; nil starts at the first event.
	Load Loader
	// State is the state at the newest event that was yielded. The caller must not modify it.
	State loop.State
	// Trackers observe every item before it is yielded.
	Trackers []*client.Tracker
	// Room is what the follower holds of a budget of views; nil for no limit. Without room, Open and Apply fail with
	// [ErrFull]. It is to be released when the state is not needed any more. The Session has to ask it for room
	// ([Hold.Load]), so that payloads count before they are loaded.
	Room *Hold
	// Outlined keeps only the outline of the state ([loop.State.Outline]), which is small.
	Outlined bool

	weight weight
	asked  map[schemas.CallKey]*schemas.ApprovalRequested // approval requests of the run in progress
}

// Open brings the state to the end of the log, using Load if set. Trackers do not observe the events before that.
func (f *Follower) Open(ctx context.Context) error {
	if f.Load == nil || f.State.Seq > 0 {
		return f.CatchUp(ctx, nil)
	}
	state, err := f.Load(ctx, f.Session.ID())
	if err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	if f.State = *state; f.Outlined {
		f.State.Outline()
	} else if f.Room != nil {
		f.count()
	}
	return f.hold()
}

// Rewind starts anew at the first event, with other trackers.
func (f *Follower) Rewind(trackers ...*client.Tracker) {
	*f = Follower{Session: f.Session, Load: f.Load, Room: f.Room, Outlined: f.Outlined, Trackers: trackers}
}

// CatchUp folds the events that the log has after the state. It calls each, which may be nil, after each event.
func (f *Follower) CatchUp(ctx context.Context, each func(e *schemas.Event)) error {
	for e, err := range f.Session.History(ctx, f.State.Seq+1) {
		if err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		if err := f.Apply(client.Item{Event: &e}); err != nil {
			return err
		}
		if each != nil {
			each(&e)
		}
	}
	return nil
}

// Items yields what follows the state until ctx ends, like [client.Session.Watch]. When an event is yielded, the
// state includes it. A reply that is being streamed at the start is yielded from its beginning.
func (f *Follower) Items(ctx context.Context) iter.Seq2[client.Item, error] {
	return func(yield func(client.Item, error) bool) {
		for item, err := range f.Session.Watch(ctx, f.State.Seq+1) {
			if err == nil {
				err = f.Apply(item)
			}
			if err != nil {
				yield(client.Item{}, fmt.Errorf("bridge: %w", err))
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

// Apply folds an item, for programs that follow the session with [Chan] instead of [Follower.Items].
func (f *Follower) Apply(i client.Item) error {
	if i.Event != nil {
		if err := f.State.Apply(*i.Event); err != nil {
			return err
		}
		if f.Outlined {
			f.State.Outline()
		}
		switch d := i.Event.Data.(type) {
		case *schemas.ApprovalRequested:
			if f.asked == nil {
				f.asked = map[schemas.CallKey]*schemas.ApprovalRequested{}
			}
			f.asked[d.Call] = d
		case *schemas.ToolExecutionEnd:
			delete(f.asked, d.Call)
		case *schemas.AgentEnd:
			clear(f.asked)
		}
	}
	for _, t := range f.Trackers {
		t.Observe(i)
	}
	return f.weigh(i)
}

// Next is an item, or the error that ends the items.
type Next struct {
	Item client.Item
	Err  error
}

// Chan turns an iterator over items into a channel, for programs that select on other channels too. The channel is
// closed when the iterator ends, which it must do when ctx ends.
func Chan(ctx context.Context, items iter.Seq2[client.Item, error]) <-chan Next {
	c := make(chan Next)
	go func() {
		defer close(c)
		for item, err := range items {
			select {
			case c <- Next{item, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c
}

// Asked returns the approval request of a waiting call. It contains the arguments that the call is executed with,
// which may differ from those in the model's message.
func (f *Follower) Asked(ctx context.Context, call schemas.CallKey) (*schemas.ApprovalRequested, error) {
	if d := f.asked[call]; d != nil {
		return d, nil
	}
	for e, err := range f.Session.History(ctx, call.Seq()) {
		if err != nil {
			return nil, fmt.Errorf("bridge: %w", err)
		}
		if d, ok := e.Data.(*schemas.ApprovalRequested); ok && d.Call == call {
			return d, nil
		}
	}
	return nil, fmt.Errorf("bridge: call %s of session %s does not wait for approval", call, f.Session.ID())
}

// Waiting returns the calls of a state that wait for approval, in the order of the reply.
func Waiting(s *loop.State) (calls []loop.Call) {
	for _, c := range s.AwaitingApproval() {
		calls = append(calls, *c)
	}
	return calls
}
