package bridge

import (
	"context"
	"fmt"
	"iter"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// A Loader returns what a session's log comes to at some event, the newest or one before, and leaves the state to the
// caller. Where there are snapshots it does not read the whole log.
type Loader func(ctx context.Context, session string) (*loop.State, error)

// Follower folds the log of a session as it goes on. It is of one goroutine. The zero State is before the first event.
type Follower struct {
	Session *client.Session
	// Load is where [Follower.Open] begins. Nil is the first event.
	Load Loader
	// State is that of the newest event that was yielded. It must not be changed.
	State loop.State
	// Trackers are given every item before it is yielded.
	Trackers []*client.Tracker

	asked map[schemas.CallKey]*schemas.ApprovalRequested // of the run under way, as far as events have come
}

// Open brings the state to the end of the log, by Load where it can. Trackers are not given the events before that.
func (f *Follower) Open(ctx context.Context) error {
	if f.Load == nil || f.State.Seq > 0 {
		return f.CatchUp(ctx, nil)
	}
	state, err := f.Load(ctx, f.Session.ID())
	if err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	f.State = *state
	return nil
}

// CatchUp folds what the log has now beyond the state. each, which may be nil, is called after each event.
func (f *Follower) CatchUp(ctx context.Context, each func(e *schemas.Event)) error {
	for e, err := range f.Session.History(ctx, f.State.Seq+1) {
		if err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		if err := f.Take(client.Item{Event: &e}); err != nil {
			return err
		}
		if each != nil {
			each(&e)
		}
	}
	return nil
}

// Items yields what follows the state, until ctx ends, as [client.Session.Watch] does. An event is part of the state
// when it is yielded. What is being streamed at the beginning comes whole.
func (f *Follower) Items(ctx context.Context) iter.Seq2[client.Item, error] {
	return func(yield func(client.Item, error) bool) {
		for item, err := range f.Session.Watch(ctx, f.State.Seq+1) {
			if err == nil {
				err = f.Take(item)
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

// Take folds an item, for programs that follow the session by [Chan] and not by [Follower.Items].
func (f *Follower) Take(i client.Item) error {
	if i.Event != nil {
		if err := f.State.Apply(*i.Event); err != nil {
			return err
		}
		switch d := i.Event.Data.(type) {
		case *schemas.ApprovalRequested:
			if f.asked == nil {
				f.asked = map[schemas.CallKey]*schemas.ApprovalRequested{}
			}
			f.asked[d.Call] = d
		case *schemas.AgentEnd:
			clear(f.asked)
		}
	}
	for _, t := range f.Trackers {
		t.Take(i)
	}
	return nil
}

// Next is an item, or the error that is the last.
type Next struct {
	Item client.Item
	Err  error
}

// Chan is a loop over items as a channel, for programs that wait for other things, too. It is closed when the loop has
// ended, which it does with ctx: that of the loop.
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

// Asked is the request for approval of a call that waits for it: above all the arguments that it is executed with,
// which need not be those of the model's message.
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

// Waiting are the calls of a state that wait for somebody's approval, in the order of the reply.
func Waiting(s *loop.State) (calls []loop.Call) {
	for _, c := range s.AwaitingApproval() {
		calls = append(calls, *c)
	}
	return calls
}
