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
