package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/sweep"
	"github.com/loopbus/loopbus/schemas"
)

// replacing returns a Sweeper while which reads the stray message at subject, the server stores another one there.
func replacing(t *testing.T, c *bus.Conn, subject string) *sweep.Sweeper {
	s := sweep.New(c, sweep.Options{})
	replaced := false
	s.Meanwhile(func(m natsio.Stored) {
		if m.Subject == subject && !replaced {
			replaced = true
			refusals(t, c, 1, func(int) string { return subject })
		}
	})
	return s
}

// A stray message that a newer one has replaced before it is removed does not end the sweep of its stream.
func TestReplacedMessageEndsNoSweep(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	const middle = "agent.sched.s2.t5"
	refusals(t, c, 10, func(i int) string { return fmt.Sprintf("agent.sched.s2.t%d", i) })
	s := replacing(t, c, middle)
	for range 2 { // the second round finds what has replaced it
		if err := s.Round(bustest.Deadline(t)); err != nil {
			t.Error(err)
		}
	}
	if n := bustest.Messages(t, c, schemas.StreamTimers); n != 0 {
		t.Errorf("%d stray messages stay", n)
	}
}

// What a round could not remove is removed by the next one.
func TestNextRoundRemovesWhatOneCouldNot(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	refusals(t, c, 10, func(i int) string { return fmt.Sprintf("agent.sched.s2.t%d", i) })
	ctx, cancel := context.WithCancel(bustest.Deadline(t))
	s := sweep.New(c, sweep.Options{})
	s.Meanwhile(func(m natsio.Stored) {
		if m.Subject == "agent.sched.s2.t9" {
			cancel() // everything has been read, nothing is removed
		}
	})
	if err := s.Round(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the round ends with %v", err)
	}
	if err := s.Round(bustest.Deadline(t)); err != nil {
		t.Error(err)
	}
	if n := bustest.Messages(t, c, schemas.StreamTimers); n != 0 {
		t.Errorf("%d stray messages stay", n)
	}
}
