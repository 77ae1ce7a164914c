package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// withdrawing is a queue that calls can be taken back from. It looks at the log when one is.
type withdrawing struct {
	*queue
	rig       *rig
	withdrawn []schemas.CallKey
	ended     int // calls that had an end by then
}

func (q *withdrawing) Withdraw(_ context.Context, _ string, call schemas.CallKey) error {
	q.withdrawn, q.ended = append(q.withdrawn, call), q.rig.count(schemas.EventToolExecutionEnd)
	return nil
}

// TestAnAbortedCallThatDoesNotAnswerIsWithdrawn also holds the order: once the log has answered, nobody may be left who could
// begin the call.
func TestAnAbortedCallThatDoesNotAnswerIsWithdrawn(t *testing.T) {
	r := newRig(t, nil)
	tools := &withdrawing{queue: r.tools, rig: r}
	r.host = r.newHost(toolThenDone("t1"), func(o *driver.HostOptions) { o.Tools, o.AbortGrace = tools, time.Millisecond })
	r.deliver("p1", prompt("go"))
	call := r.tools.take(t).Call
	r.deliver("a1", &schemas.Abort{})
	r.wantEnd(schemas.EndAbort)
	if d := cmp.Diff([]schemas.CallKey{call}, tools.withdrawn); d != "" || tools.ended > 0 {
		t.Errorf("withdrawn when %d calls had ended (-want +got):\n%s", tools.ended, d)
	}
}
