package sweep

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A timer that is set again is the same timer, and asks servers for nothing else.
func TestTimersAreSetAgainWithoutOtherInstructions(t *testing.T) {
	t.Parallel()
	want := nats.Header{jetstream.ScheduleHeader: {"@at x"}, jetstream.ScheduleTargetHeader: {"agent.due.s1.x"},
		jetstream.ScheduleTTLHeader: {"1h"}, "kept": {"y"}}
	got := schedule(nats.Header{jetstream.ScheduleHeader: {"@at x"}, jetstream.ScheduleTargetHeader: {"agent.due.s1.x"},
		jetstream.ScheduleTTLHeader: {"1h"}, "kept": {"y"}, "Nats-Trace-Dest": {"x"}, "nats-rollup": {"all"},
		jetstream.MsgRollup: {"all"}, "Status": {"100"}})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
}
