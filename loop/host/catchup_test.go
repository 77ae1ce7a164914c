package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// A prompt that follows an announcement on the session's channel gets a run with the announced tools. A failing CatchUp
// ends no run, and runs of sessions without a channel do not call it.
func TestARunOfAChannelHasItsNewestTools(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct {
		channel string
		fails   error
		asked   int
	}{
		"a channel": {"c1", nil, 1}, "a channel, no answer": {"c1", errors.New("none"), 1}, "no channel": {"", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := looptest.New(t, nil)
			asked := 0
			r.Host = r.NewHost(looptest.ToolThenDone("t1"), func(o *host.Options) {
				o.CatchUp = func(context.Context) error {
					asked++
					return at.fails
				}
			})
			p := looptest.Prompt("go")
			p.Channel = at.channel
			r.Deliver("p1", p)
			if asked != at.asked || r.Count(schemas.EventAgentStart) != 1 {
				t.Errorf("asked %d times, want %d; log %v", asked, at.asked, r.Types())
			}
		})
	}
}
