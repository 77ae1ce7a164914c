package bus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// Whoever may publish anything can have a server answer at a timer's subject, which holds one message. The timer fires
// nevertheless: a session that waits for it would rest for ever.
func TestAnAnswerOfAServerTakesNoTimerAway(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var fired firedTimers
	bustest.RunInbox(t, c, bustest.Fast("r1"), &fired)
	timer := schemas.Timer{Name: schemas.TimerRetry, RunID: "run1"}
	if err := bus.NewTimers(c).Schedule(bustest.Deadline(t), "s2", time.Now().Add(time.Second), timer); err != nil {
		t.Fatal(err)
	}
	if err := c.NATS().PublishMsg(&nats.Msg{Subject: "agent.live.s1.update", Reply: "agent.sched.s2.retry",
		Data: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the timer fires", func() bool { return len(fired.names()) > 0 })
}
