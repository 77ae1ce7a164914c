package index_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// Comparisons with the logs, of all sessions and of what is new, leave no consumers on the server.
func TestComparisonsLeaveNoConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.session(nil, "s1").say(turn(1, "x")...)
	ix := r.open(r.quick())
	reaches(t, ix, "s1", 8)
	for n := range 3 {
		id := fmt.Sprintf("later%d", n)
		r.session(nil, id).say(turn(1, "x")...)
		reaches(t, ix, id, 8)
	}
	stream, err := r.conn.JetStream().Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	bustest.Eventually(t, "no consumer is left", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Consumers == 0
	})
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("the server has deleted them by itself, after %s", took)
	}
}

// A message with the header of a status ends no comparison: only a server sends a status, and not as a message of a
// stream.
func TestAStatusInALogEndsNoComparison(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.session(nil, "s1").say(turn(1, "x")...)
	r.spoil("s1", nats.Header{"Status": {"409"}})
	r.spoil("s1", nats.Header{"Status": {"503"}})
	r.session(nil, "s2").say(turn(1, "x")...)
	ix := r.open(r.quick())
	reaches(t, ix, "s1", 8)
	reaches(t, ix, "s2", 8)
	bustest.Eventually(t, "the first comparison is completed", func() bool { return !ix.View().Partial })
}
