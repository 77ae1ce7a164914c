package shares_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/shares"
)

// takeAll takes single units for a caller until there are no more for it, and returns how many that were.
func takeAll(s *shares.Shares, caller string) (n int) {
	for s.Take(caller, 1) {
		n++
	}
	return n
}

func TestACallerLeavesAsMuchAsItTakes(t *testing.T) {
	t.Parallel()
	s := shares.New(256)
	for n, want := range []int{128, 64, 32, 16, 8, 4, 2, 1, 1, 0} {
		if got := takeAll(s, string(rune('a'+n))); got != want {
			t.Errorf("caller %d gets %d units, want %d", n+1, got, want)
		}
	}
	s.Release("a", 128)
	if got := takeAll(s, "z"); got != 64 {
		t.Errorf("of 128 free units, a new caller gets %d", got)
	}
	if got := takeAll(s, ""); got != 64 {
		t.Errorf("of 64 free units, all who cannot be told apart get %d", got)
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	s := shares.New(100)
	for n, step := range []struct {
		caller string
		units  int
		want   bool
	}{{"a", 51, false}, {"a", 50, true}, {"a", 1, false}, {"b", 26, false}, {"b", 10, true}, {"b", 10, true},
		{"b", 10, false}, {"c", 15, true}, {"", 16, false}, {"", 15, true}, {"d", 1, false}} {
		if fits, took := s.Fits(step.caller, step.units), s.Take(step.caller, step.units); fits != step.want ||
			took != step.want {
			t.Errorf("step %d: fits %v, takes %v", n+1, fits, took)
		}
	}
	if s.Held("b") != 20 || s.Limit() != 100 {
		t.Errorf("b holds %d of %d units", s.Held("b"), s.Limit())
	}
	if one := shares.New(1); !one.Take("a", 1) || one.Take("b", 1) {
		t.Error("a single unit is for the first who needs it")
	}
}
