package inbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// Timers of a session that does not go on leave their places to others, and fire later: a reply has hundreds of calls
// whose approval has a time limit each.
func TestTimersLeaveTheirPlaces(t *testing.T) {
	t.Parallel()
	const places, set = 120, 100
	_, c := bustest.Small(t)
	rest := make(chan struct{})
	h := fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, _ func()) error {
		if cmd.Data.CommandKind() == schemas.CommandPrompt {
			<-rest
		}
		return nil
	}}
	o := bustest.Fast("r1")
	o.MaxInFlight = places
	bustest.RunInbox(t, c, o, &h)
	bustest.Send(t, c, "s1", "it waits for memory")
	for i := range set {
		timer := schemas.Timer{Name: fmt.Sprint(schemas.TimerApproval, "_c", i), RunID: "r1"}
		if err := bus.NewTimers(c).Schedule(bustest.Deadline(t), "s1", time.Now(), timer); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "all are due", func() bool { return bustest.Queued(t, c) == set+1 })
	bustest.Eventually(t, "few keep their places", func() bool { return bustest.Queued(t, c) <= places/2 })
	left := bustest.Queued(t, c) - 1
	if dead := bustest.Messages(t, c, schemas.StreamDead); dead != 0 || left < 16 {
		t.Errorf("%d dead letters, and %d timers are left", dead, left)
	}
	close(rest)
	bustest.Eventually(t, "nothing is left", func() bool { return bustest.Queued(t, c) == 0 })
	timers, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamTimers)
	if err != nil {
		t.Fatal(err)
	}
	info, err := timers.Info(bustest.Deadline(t), jetstream.WithSubjectFilter("agent.sched.s1.>"))
	if err != nil || uint64(len(info.State.Subjects)) != set-left {
		t.Errorf("%d timers wait, want %d: %v", len(info.State.Subjects), set-left, err)
	}
}
