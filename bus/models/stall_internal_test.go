package models

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Events without progress hold a call for as long as they may, and no event with progress ends it.
func TestEventsWithoutProgressDoNotHoldACall(t *testing.T) {
	t.Parallel()
	empty := schemas.StreamEvent{Type: schemas.StreamTextDelta}
	text := schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: "a word"}
	for _, c := range []struct {
		name   string
		events []schemas.StreamEvent // one every four minutes, from the first again
		holds  bool
	}{
		{"empty deltas", []schemas.StreamEvent{empty, {Type: schemas.StreamThinkingDelta}}, false},
		{"starts and ends", []schemas.StreamEvent{{Type: schemas.StreamStart}, {Type: schemas.StreamTextEnd}}, false},
		{"a word now and then", []schemas.StreamEvent{empty, empty, empty, text}, true},
		{"empty blocks of hidden thinking", []schemas.StreamEvent{{Type: schemas.StreamThinkingStart},
			{Type: schemas.StreamThinkingEnd}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				call := &clientCall{client: NewClient(nil, ClientOptions{}), meter: meter{bounds: Bounds{}.orDefaults()}}
				said := func(e schemas.StreamEvent) error {
					_, err := call.event(schemas.ModelFrame{Event: &e})
					return err
				}
				if err := said(text); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				var err error
				for i := 0; err == nil && time.Since(begun) < 48*time.Hour; i++ {
					time.Sleep(4 * time.Minute)
					err = said(c.events[i%len(c.events)])
				}
				switch took := time.Since(begun); {
				case c.holds && err != nil:
					t.Errorf("ended after %s: %v", took, err)
				case !c.holds && (schemas.FailureCodeOf(err) != schemas.FailureTimeout || took != time.Hour+4*time.Minute):
					t.Errorf("ended after %s with %v", took, err)
				}
			})
		})
	}
}
