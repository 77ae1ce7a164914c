package held

import (
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

func TestLargeRepliesShareABudget(t *testing.T) {
	t.Parallel()
	b := &Budget{limit: 1000, free: 100}
	first, second, small := b.Share(), b.Share(), b.Share()
	hold := func(s *Share, n int, want bool) {
		t.Helper()
		err := s.Hold(n)
		if (err == nil) != want || err != nil && schemas.FailureCodeOf(err) != schemas.FailureOverloaded {
			t.Errorf("hold %d: %v", n, err)
		}
	}
	hold(first, 1100, true) // all of the budget
	hold(first, 1101, false)
	hold(second, 101, false)
	hold(small, 100, true) // it is not counted
	hold(first, 600, true)
	hold(second, 600, true)
	hold(second, 601, false)
	first.Release()
	first.Release()
	hold(second, 1100, true)
	second.Release()
	small.Release()
	if n := b.used.Load(); n != 0 {
		t.Errorf("%d bytes are held after all shares were released", n)
	}
}
