package loop_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// TestPartlyStoredCommandIsCompleted stops after every event of commands that take several, and wants Next to choose
// the rest: the log has the command, so it will not be accepted again.
func TestPartlyStoredCommandIsCompleted(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]schemas.CommandData{
		"a setting":               &schemas.SetThinkingLevel{ThinkingLevel: schemas.ThinkingHigh},
		"clear_queue":             &schemas.ClearQueue{},
		"clear_queue of one kind": &schemas.ClearQueue{Queue: "follow_up"},
		"cancel_input":            &schemas.CancelInput{InputID: "f1"},
		"abort":                   &schemas.Abort{},
		"abort that clears":       &schemas.Abort{ClearQueue: true},
		"prompt that interrupts":  &schemas.Prompt{Input: schemas.Input{Text: "stop"}, WhenBusy: schemas.BusyInterrupt},
	} {
		t.Run(name, func(t *testing.T) {
			whole := busy(t)
			c := schemas.Command{ID: "x", Session: "s1", Data: data}
			raw, err := schemas.Marshal(data)
			if err != nil {
				t.Fatal(err)
			}
			events := loop.Accept(whole, c, raw, loop.Rules{})
			appendAll(t, whole, events...)
			if len(events) < 2 || len(whole.Owed) > 0 {
				t.Fatalf("%d events, and then %d are owed", len(events), len(whole.Owed))
			}
			for n := 1; n < len(events); n++ {
				torn := busy(t)
				appendAll(t, torn, events[:n]...)
				if again := loop.Accept(torn, c, raw, loop.Rules{}); again != nil {
					t.Errorf("torn after %d, it is accepted again with %d events", n, len(again))
				}
				for len(torn.Owed) > 0 {
					step, ok := loop.Next(torn).(loop.Emit)
					if !ok || step.CausationID != "x" {
						t.Fatalf("torn after %d, next is %#v", n, loop.Next(torn))
					}
					appendAll(t, torn, step.Data)
				}
				if d := cmp.Diff(whole, torn, cmp.AllowUnexported(loop.Known{})); d != "" {
					t.Errorf("torn after %d (-whole +torn):\n%s", n, d)
				}
			}
		})
	}
}

// busy returns a session with a run under way and an input in every queue.
func busy(t *testing.T) *loop.State {
	t.Helper()
	s := &loop.State{Session: "s1"}
	in := schemas.Input{Text: "hi"}
	commands := []schemas.Command{
		{ID: "p1", Data: &schemas.Prompt{Input: in}}, {ID: "p2", Data: &schemas.Prompt{Input: in}},
		{ID: "p3", Data: &schemas.Prompt{Input: in}}, {ID: "s1", Data: &schemas.Steer{Input: in}},
		{ID: "f1", Data: &schemas.FollowUp{Input: in}}, {ID: "f2", Data: &schemas.FollowUp{Input: in}},
	}
	for i, c := range commands {
		raw, err := schemas.Marshal(c.Data)
		if err != nil {
			t.Fatal(err)
		}
		appendAll(t, s, loop.Accept(s, c, raw, loop.Rules{})...)
		if i == 0 {
			appendAll(t, s, &schemas.AgentStart{Config: new(schemas.RunConfig), Inputs: []string{"p1"}})
		}
	}
	return s
}

func appendAll(t *testing.T, s *loop.State, events ...schemas.EventData) {
	t.Helper()
	for _, data := range events {
		if err := s.Apply(s.Envelope(data)); err != nil {
			t.Fatal(err)
		}
	}
}
