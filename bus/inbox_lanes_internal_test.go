package bus

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func entered(t *ticket) bool {
	if t.called == nil {
		return true
	}
	select {
	case <-t.called:
		return true
	default:
		return false
	}
}

func TestLaneLetsInOneAfterTheOther(t *testing.T) {
	ls := newLanes()
	a, b, c, other := ls.join("s", 1), ls.join("s", 2), ls.join("s", 3), ls.join("other", 4)
	if !entered(a) || entered(b) || entered(c) || !entered(other) {
		t.Fatal("only the first of each session may enter")
	}
	a.leave(0)
	a.leave(0) // does not count twice
	if !entered(b) || entered(c) {
		t.Fatal("leaving lets in exactly the next")
	}
	b.leave(0)
	if !entered(c) {
		t.Fatal("leaving lets in the next")
	}
	c.leave(0)
	other.leave(0)
	if len(ls.bySession) != 0 {
		t.Errorf("%d lanes are left", len(ls.bySession))
	}
}

func TestLaneSkipsWhoGaveUpWaiting(t *testing.T) {
	ls := newLanes()
	a, b, c := ls.join("s", 1), ls.join("s", 2), ls.join("s", 3)
	b.leave(time.Hour)
	if entered(c) {
		t.Fatal("c may not pass a")
	}
	a.leave(0)
	if !entered(c) {
		t.Error("c is held up by nobody")
	}
}

func TestLaneFollowsTheStreamNotTheArrival(t *testing.T) {
	ls := newLanes()
	a, d, c, b := ls.join("s", 1), ls.join("s", 4), ls.join("s", 3), ls.join("s", 2)
	for _, next := range []*ticket{a, b, c, d} {
		if !entered(next) {
			t.Fatalf("sequence %d is not let in", next.seq)
		}
		next.leave(0)
	}
}

func TestLaneHoldsUpThoseBehindAFailureUntilItIsBack(t *testing.T) {
	ls := newLanes()
	a, b := ls.join("s", 1), ls.join("s", 2)
	a.leave(time.Hour)
	c := ls.join("s", 3)
	if entered(b) || entered(c) {
		t.Fatal("passed a message that failed")
	}
	again := ls.join("s", 1)
	if !entered(again) || entered(b) {
		t.Fatal("the failed message comes first")
	}
	again.leave(0)
	if !entered(b) {
		t.Error("b is held up by nobody")
	}
	b.leave(0)
	c.leave(0)
	if len(ls.bySession) != 0 {
		t.Errorf("%d lanes are left", len(ls.bySession))
	}
}

func TestLaneHoldsUpNobodyIfTheFailedMessageIsBackAlready(t *testing.T) {
	ls := newLanes()
	a, b, again := ls.join("s", 1), ls.join("s", 2), ls.join("s", 1)
	a.leave(time.Hour)
	if !entered(again) || entered(b) {
		t.Fatal("the failed message comes first")
	}
}

func TestLaneAwaitsWhatIsToComeBefore(t *testing.T) {
	ls := newLanes()
	ls.await("s", []uint64{2, 4}, time.Hour)
	five, three, one := ls.join("s", 5), ls.join("s", 3), ls.join("s", 1)
	if !entered(one) || entered(three) || entered(five) {
		t.Fatal("only what is before all that is awaited may enter")
	}
	one.leave(0)
	two := ls.join("s", 2)
	if !entered(two) || entered(three) {
		t.Fatal("what was awaited comes first")
	}
	two.leave(0)
	if !entered(three) || entered(five) {
		t.Fatal("the next may come up to what is awaited still")
	}
	four := ls.join("s", 4)
	for _, next := range []*ticket{three, four, five} {
		if !entered(next) {
			t.Fatalf("sequence %d is not let in", next.seq)
		}
		next.leave(0)
	}
	if len(ls.bySession) != 0 {
		t.Errorf("%d lanes are left", len(ls.bySession))
	}
}

func TestLaneAwaitsForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes()
		start := time.Now()
		ls.await("s", []uint64{1}, time.Second)
		b := ls.join("s", 2)
		if err := b.wait(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("awaited for %s", got)
		}
		b.leave(0)
	})
}

func TestLaneHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes()
		a, b := ls.join("s", 1), ls.join("s", 2)
		ls.join("empty", 1).leave(time.Second)
		a.leave(time.Second)
		start := time.Now()
		if err := b.wait(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("held up for %s", got)
		}
		b.leave(0)
		synctest.Wait()
		if len(ls.bySession) != 0 {
			t.Errorf("%d lanes are left", len(ls.bySession))
		}
	})
}

func TestLaneDoesNotHoldUpForAFailureThatHadEntered(t *testing.T) {
	ls := newLanes()
	a, b := ls.join("s", 1), ls.join("s", 2)
	a.leave(0)         // entered
	a.leave(time.Hour) // and failed later
	if !entered(b) {
		t.Error("b is held up by nobody")
	}
}

func TestWaitingInALaneEnds(t *testing.T) {
	ls := newLanes()
	ls.join("s", 1)
	stop := make(chan struct{})
	close(stop)
	if err := ls.join("s", 2).wait(context.Background(), stop); !errors.Is(err, errGivenBack) {
		t.Errorf("stopped: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := ls.join("s", 3).wait(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
