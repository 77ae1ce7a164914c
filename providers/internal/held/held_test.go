package held

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/schemas"
)

func TestTheLargestReplyEnds(t *testing.T) {
	t.Parallel()
	b := New(1000, 100)
	type reply struct {
		*Share
		ended error
	}
	share := func() *reply {
		r := &reply{}
		r.Share = b.Share(t.Context(), "", func(err error) {
			r.ended = err
			go r.Release()
		})
		return r
	}
	hold := func(r *reply, n int, want bool) {
		t.Helper()
		err := r.Hold(n)
		if (err == nil) != want || err != nil && (schemas.FailureCodeOf(err) != schemas.FailureOverloaded || !Ended(err)) {
			t.Errorf("hold %d: %v", n, err)
		}
	}
	all, alone, small := share(), share(), share()
	hold(all, 1100, true)
	hold(small, 100, true) // it is not counted
	hold(alone, 101, true) // ends the largest
	if !Ended(all.ended) || schemas.FailureCodeOf(all.ended) != schemas.FailureOverloaded {
		t.Errorf("the largest reply: %v", all.ended)
	}
	hold(all, 1101, false)
	hold(alone, 1101, false) // itself is the largest
	alone.Release()
	first, second := share(), share()
	hold(first, 700, true)
	hold(second, 500, true)
	hold(second, 450, true)
	hold(second, 800, false)
	if first.ended != nil || second.ended != nil {
		t.Errorf("ended: %v, %v", first.ended, second.ended)
	}
	for _, r := range []*reply{all, alone, small, first, first, second} {
		r.Release()
	}
	if b.bytes != 0 || len(b.large) != 0 {
		t.Errorf("%d bytes of %d shares count after all were released", b.bytes, len(b.large))
	}
}

// What a reply holds that has to end counts until it is released: a reply that grows waits for that, unless it is given
// up or has to end itself.
func TestRepliesThatEndCountUntilTheirRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(1000, 0)
		share := func() (*Share, context.CancelCauseFunc) {
			ctx, end := context.WithCancelCause(t.Context())
			return b.Share(ctx, "", end), end
		}
		hold := func(s *Share, n int) chan error {
			held := make(chan error, 1)
			go func() { held <- s.Hold(n) }()
			synctest.Wait()
			return held
		}
		first, endFirst := share()
		defer endFirst(nil)
		hold(first, 700)
		second, endSecond := share()
		defer endSecond(nil)
		waits := hold(second, 600)
		if len(waits) > 0 || !Ended(context.Cause(first.ctx)) {
			t.Errorf("%d replies wait for the first, which ends with %v", 1-len(waits), context.Cause(first.ctx))
		}
		given, giveUp := share()
		gone := hold(given, 100)
		giveUp(errors.New("given up"))
		if err := <-gone; err != nil || context.Cause(given.ctx) == nil {
			t.Errorf("a reply that is given up ends with %v", err)
		}
		given.Release()
		third, endThird := share()
		defer endThird(nil)
		more := hold(third, 500) // the second has to end while it waits
		if err := <-waits; !Ended(err) || len(more) > 0 {
			t.Errorf("the second ends with %v, and %d replies go on", err, len(more))
		}
		second.Release()
		synctest.Wait()
		if len(more) > 0 {
			t.Error("the third goes on before the first is released")
		}
		first.Release()
		if err := <-more; err != nil {
			t.Error(err)
		}
		third.Release()
		if b.bytes != 0 || b.ending != 0 {
			t.Errorf("%d bytes count after all were released, %d of them end", b.bytes, b.ending)
		}
	})
}

// Replies grow in goroutines of their own, and any of them may end another.
func TestRepliesGrowConcurrently(t *testing.T) {
	t.Parallel()
	b := New(1000, 10)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				ctx, end := context.WithCancelCause(t.Context())
				s := b.Share(ctx, "", end)
				for n := 0; n < 500 && s.Hold(n) == nil; n += 5 {
				}
				s.Release()
				end(nil)
			}
		})
	}
	if all.Wait(); b.bytes != 0 || len(b.large) != 0 {
		t.Errorf("%d bytes of %d shares count after all were released", b.bytes, len(b.large))
	}
}

// A vendor with very many replies does not keep a larger one of another vendor from its end, nor do a few of the
// largest end those of a vendor with many.
func TestTheVendorWithMostMakesRoom(t *testing.T) {
	t.Parallel()
	b := New(1000, 0)
	ended := map[string]int{}
	var all []*Share
	share := func(vendor string, n int) error {
		var s *Share
		s = b.Share(t.Context(), vendor, func(error) {
			ended[vendor]++
			go s.Release()
		})
		all = append(all, s)
		return s.Hold(n)
	}
	for range 100 {
		if err := share("many", 10); err != nil {
			t.Fatal(err)
		}
	}
	if err := share("few", 60); err != nil || ended["many"] != 6 {
		t.Errorf("ended %v, want 6 of many: %v", ended, err)
	}
	if err := share("largest", 200); !Ended(err) || len(ended) > 1 {
		t.Errorf("ended %v, want only the largest: %v", ended, err)
	}
	for _, s := range all {
		s.Release()
	}
	if b.bytes != 0 || len(b.large) != 0 || len(b.vendors) != 0 {
		t.Errorf("%d bytes of %d shares of %d vendors count in the end", b.bytes, len(b.large), len(b.vendors))
	}
}
