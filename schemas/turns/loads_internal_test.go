package turns

import (
	"testing"
	"testing/synctest"
)

// Of those who load much, two go on, and one who loads very much. The others wait until one of them has ended, and
// those who load little for nobody.
func TestLargeLoadsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLoads()
		through := make(chan int, 10)
		begin := func(n, bytes int) (end func()) {
			ctx, end := l.Load(t.Context())
			go func() {
				for range 2 {
					if err := Pass(ctx, bytes/2); err != nil {
						t.Error(err)
					}
				}
				through <- n
			}()
			synctest.Wait()
			return end
		}
		want := func(n int, when string) {
			t.Helper()
			if synctest.Wait(); len(through) != n {
				t.Errorf("%d loads went on %s, want %d", len(through), when, n)
			}
		}
		first, second := begin(1, largeLoad+2), begin(2, largeLoad+2)
		third, little := begin(3, largeLoad+2), begin(4, largeLoad)
		want(3, "at first")
		first()
		want(4, "once the first has ended")
		third()
		huge, other := begin(5, 2*hugeLoad+2), begin(6, 2*hugeLoad+2)
		want(5, "with two that load very much")
		large := begin(7, largeLoad+2)
		second()
		want(6, "beside the one that loads very much, and the one that waits for that")
		huge()
		want(7, "once that has ended")
		for _, end := range []func(){large, other, little} {
			end()
		}
		if !l.of.Idle() {
			t.Error("a turn was not given back")
		}
	})
}

// Pieces of a stream count by themselves, and a load within another one is part of that.
func TestStreamsCountTheirPieces(t *testing.T) {
	t.Parallel()
	l := NewLoads()
	ctx, end := l.Stream(t.Context())
	pass := func(bytes int, idle bool) {
		t.Helper()
		if err := Pass(ctx, bytes); err != nil || l.of.Idle() != idle {
			t.Errorf("after a piece of %d bytes: %v, idle: %v", bytes, err, l.of.Idle())
		}
	}
	for range 3 {
		pass(largeLoad, true)
	}
	pass(hugeLoad+1, false)
	within, endWithin := l.Load(ctx)
	if err := Pass(within, hugeLoad+1); err != nil {
		t.Error(err)
	}
	endWithin()
	pass(hugeLoad+1, false)
	pass(1, true)
	pass(hugeLoad, false)
	end()
	end()
	if !l.of.Idle() {
		t.Error("a turn was not given back")
	}
}
