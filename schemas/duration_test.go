package schemas_test

import (
	"math"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

func TestMillisecondsSaturate(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		0: 0, 1: time.Millisecond, -1: -time.Millisecond, 172_800_000: 48 * time.Hour,
		9_223_372_036_854: 9_223_372_036_854 * time.Millisecond, 9_223_372_036_855: math.MaxInt64,
		math.MaxInt64: math.MaxInt64, -9_223_372_036_855: math.MinInt64, math.MinInt64: math.MinInt64,
	} {
		if got := schemas.Milliseconds(n); got != want {
			t.Errorf("Milliseconds(%d) = %d, want %d", n, got, want)
		}
	}
}

// TestHookTimeoutBeyondADuration: a wait that wrapped around would have ended before the request was sent.
func TestHookTimeoutBeyondADuration(t *testing.T) {
	ref := schemas.HookRef{Hook: schemas.HookBeforeToolCall, TimeoutMs: 10_000_000_000_000}
	if got := ref.Timeout(); got != math.MaxInt64 {
		t.Errorf("Timeout() = %s, want the longest duration", got)
	}
}

func TestAfterIsATimeOfJSON(t *testing.T) {
	late := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, n := range []int64{0, 100_000, math.MaxInt64} {
		if _, err := schemas.After(late, n).MarshalJSON(); err != nil {
			t.Errorf("%d ms after %v: %v", n, late, err)
		}
	}
	if at, want := schemas.After(time.Unix(1, 0), 1500), time.Unix(2, 500_000_000); !at.Equal(want) {
		t.Errorf("%v, want %v", at, want)
	}
}
