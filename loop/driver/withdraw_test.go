package driver_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// withdrawing is a queue whose calls can be withdrawn. It reads the log when one is.
type withdrawing struct {
	*looptest.Queue
	rig       *looptest.Rig
	withdrawn []schemas.CallKey
	ended     int // calls that had an end by then
}

func (q *withdrawing) Withdraw(_ context.Context, _ string, call schemas.CallKey) error {
	q.withdrawn, q.ended = append(q.withdrawn, call), q.rig.Count(schemas.EventToolExecutionEnd)
	return nil
}

// TestAnAbortedCallThatDoesNotAnswerIsWithdrawn also tests the order: when the log has answered the call, no worker may
// still be able to begin it.
func TestAnAbortedCallThatDoesNotAnswerIsWithdrawn(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, nil)
	tools := &withdrawing{Queue: r.Tools, rig: r}
	r.Host = r.NewHost(looptest.ToolThenDone("t1"), func(o *host.Options) {
		o.Tools, o.AbortGrace = tools, time.Millisecond
	})
	r.Deliver("p1", looptest.Prompt("go"))
	call := r.Tools.Take(t).Call
	r.Deliver("a1", &schemas.Abort{})
	r.WantEnd(schemas.EndAbort)
	if d := cmp.Diff([]schemas.CallKey{call}, tools.withdrawn); d != "" || tools.ended > 0 {
		t.Errorf("withdrawn when %d calls had ended (-want +got):\n%s", tools.ended, d)
	}
}
