package memory

import (
	"context"
	"math"
	"runtime/debug"
	"testing"
)

func TestMemoryLimitFollowsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	const mib, aim = 1 << 20, 144 << 20
	for _, c := range []struct{ live, stacks, want int64 }{
		{30 * mib, 2 * mib, aim},
		{90 * mib, 10 * mib, aim}, // with room for garbage
		{800 * mib, 100 * mib, 1200 * mib},
	} {
		if got := limit(aim, uint64(c.live), uint64(c.stacks)); math.Abs(float64(got-c.want)) > 100 {
			t.Errorf("%d live bytes and %d of stacks: a limit of %d, want %d", c.live, c.stacks, got, c.want)
		}
	}
}

// It is not parallel: the limit is the process's.
func TestMemoryIsBoundedUnlessTheEnvironmentSays(t *testing.T) {
	const aim = 144 << 20
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for variable, bounded := range map[string]bool{"GOGC": false, "GOMEMLIMIT": false, "": true} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			if variable != "" {
				t.Setenv(variable, "100")
			}
			debug.SetMemoryLimit(math.MaxInt64)
			if err := Bound(ended, aim); err != nil {
				t.Fatal(err)
			}
			if got := debug.SetMemoryLimit(-1); (got < math.MaxInt64) != bounded || got < aim {
				t.Errorf("the limit is %d", got)
			}
		})
	}
}
