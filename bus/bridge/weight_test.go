package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Followers of a session hold their states, or almost nothing if they keep only its outline.
func TestFollowersHoldTheirStates(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	c, err := client.New(bustest.New(t).NATS(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	load := func(_ context.Context, session string) (*loop.State, error) {
		m := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: strings.Repeat("x", size)}}}
		return &loop.State{Session: session, Seq: 1,
			Messages: []loop.Entry{{ID: "m1", Message: schemas.AnyMessage{Message: m}}}}, nil
	}
	views := bridge.NewViews(6 * size)
	open := func(session string, outlined bool) (*bridge.Follower, error) {
		f := &bridge.Follower{Session: c.Session(session), Load: load, Outlined: outlined, Room: views.Hold(session)}
		return f, f.Open(t.Context())
	}
	first, err := open("s1", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open("s1", false); !errors.Is(err, bridge.ErrFull) { // twice its size: the state, and what is encoded
		t.Errorf("a second follower: %v", err)
	}
	for range 64 {
		f, err := open("s1", true)
		if err != nil || f.State.Bytes() > 1<<10 {
			t.Fatalf("an outline has %d bytes: %v", f.State.Bytes(), err)
		}
	}
	add := func(f *bridge.Follower, text string) error {
		return f.Apply(client.Item{Update: &schemas.Update{Data: &schemas.MessageUpdate{MessageID: "m2",
			AssistantMessageEvents: []schemas.StreamEvent{{Type: schemas.StreamTextDelta, Delta: text}}}}})
	}
	follower, err := open("s1", true)
	if err == nil {
		err = add(follower, "a little")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := add(follower, strings.Repeat("x", 4*size)); !errors.Is(err, bridge.ErrFull) {
		t.Errorf("a long reply that is being streamed: %v", err)
	}
	first.Room.Release()
	if err := add(follower, "more"); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// A session that has more than the budget is shown to one client at a time.
func TestASessionLargerThanTheBudget(t *testing.T) {
	t.Parallel()
	views := bridge.NewViews(1 << 20)
	one, other := views.Hold("s1"), views.Hold("s1")
	if err := one.Set(1 << 30); err != nil {
		t.Error(err)
	}
	if err := other.Set(1 << 30); !errors.Is(err, bridge.ErrFull) {
		t.Errorf("a second client: %v", err)
	}
	if err := views.Hold("s2").Set(256 << 10); err != nil {
		t.Errorf("another session: %v", err)
	}
	one.Release()
	one.Release()
	if err := other.Set(100 << 10); err != nil {
		t.Error(err)
	}
}
