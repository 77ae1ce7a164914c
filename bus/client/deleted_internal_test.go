package client

import (
	"testing"
	"testing/synctest"
	"time"
)

// A log is deleted if it is missing at two checks in a row, not too close to each other.
func TestAbsence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a absence
		for i, check := range []struct {
			after         time.Duration
			missing, want bool
		}{
			{0, false, false}, {lastCheck, true, false}, {lastCheck - 1, true, false}, {1, false, false},
			{lastCheck, true, false}, {time.Second, true, false}, {lastCheck - time.Second, true, true},
		} {
			time.Sleep(check.after)
			if got := a.lasts(check.missing, lastCheck); got != check.want {
				t.Errorf("check %d: deleted is %t", i, got)
			}
		}
	})
}
