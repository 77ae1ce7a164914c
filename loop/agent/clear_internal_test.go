package agent

import (
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// A prompt whose run has not begun is not queued: another goroutine that clears the queues does not withdraw it.
func TestClearAllQueuesLeavesPrompts(t *testing.T) {
	t.Parallel()
	a, err := New(t.Context(), Options{Stream: scripted.New()})
	if err != nil {
		t.Fatal(err)
	}
	user := schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "hi"}}}}
	for _, c := range []schemas.CommandData{&schemas.Prompt{Input: schemas.Input{Messages: user}},
		&schemas.Steer{Input: schemas.Input{Messages: user}}, &schemas.FollowUp{Input: schemas.Input{Messages: user}}} {
		if err := a.command(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.ClearAllQueues(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.d.View(func(s *loop.State) {
		if len(s.Prompts) != 1 || len(s.Steering) != 0 || len(s.FollowUp) != 0 {
			t.Errorf("%d prompts, %d to steer with, %d to follow up", len(s.Prompts), len(s.Steering), len(s.FollowUp))
		}
	})
}
