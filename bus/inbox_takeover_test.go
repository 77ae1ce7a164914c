package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// What a runner gives back because another one has its session is delivered again, and no failure.
func TestALostSessionIsNoFailure(t *testing.T) {
	_, c := newSmallBus(t)
	l := newLedger()
	var log logBuffer
	o := fastOptions("a")
	o.Logger = log.logger()
	var tries atomic.Int64
	runInbox(t, c, o, &fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, entered func()) error {
		if tries.Add(1) == 1 {
			return fmt.Errorf("append: %w", schemas.ErrConflict)
		}
		l.take("a", cmd)
		return nil
	}})
	send(t, c, "s0", "000000")
	l.check(t, c, 1, 1)
	if got := log.String(); strings.Contains(got, "level=ERROR") {
		t.Errorf("the log says:\n%s", got)
	}
}

// A deployment's takeover is changed by starting its runners with another one, which then goes for the consumers there are.
func TestTheTakeoverCanBeChanged(t *testing.T) {
	s, c := newSmallBus(t)
	l := newLedger()
	for i, takeover := range []time.Duration{20 * time.Second, bus.MinTakeover, time.Minute} {
		runInbox(t, connect(t, s), bus.InboxOptions{RunnerID: fmt.Sprintf("r%d", i), Takeover: takeover}, l.handler("r"))
		consumer, err := c.JetStream().Consumer(deadline(t), schemas.StreamCommands, "p0")
		if err != nil {
			t.Fatal(err)
		}
		if got := consumer.CachedInfo().Config; got.AckWait != takeover*3/5 || got.PinnedTTL != takeover*2/5 {
			t.Errorf("with a takeover of %s a command stays for %s, a partition for %s", takeover, got.AckWait, got.PinnedTTL)
		}
	}
}
