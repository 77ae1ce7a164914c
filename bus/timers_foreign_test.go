package bus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// A client that may publish any message can direct an answer of the server to a guessed subject of a timer, which holds
// one message. The timer fires nevertheless; without it the session would wait for ever.
func TestServerAnswerDoesNotReplaceTimer(t *testing.T) {
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
