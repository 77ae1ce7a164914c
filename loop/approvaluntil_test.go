package loop_test

import (
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop"
)

// TestApprovalTimeBeyondADuration: a hook service may give an approver any number of milliseconds. A wait that wraps
// around would have been over before the request.
func TestApprovalTimeBeyondADuration(t *testing.T) {
	t.Parallel()
	asked := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, ms := range []int64{9_223_372_036_855, 10_000_000_000_000, 1<<63 - 1} {
		if until := (&loop.Approval{RequestedAt: asked, TimeoutMs: ms}).Until(); until.Year() < 2300 {
			t.Errorf("%d ms after %s is %s", ms, asked, until)
		}
	}
}
