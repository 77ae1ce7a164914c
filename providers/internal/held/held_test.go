package held

import (
	"sync"
	"testing"

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
		r.Share = b.Share(func(err error) { r.ended = err })
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

// Replies grow in goroutines of their own, and any of them may end another.
func TestRepliesGrowConcurrently(t *testing.T) {
	t.Parallel()
	b := New(1000, 10)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				s := b.Share(func(error) {})
				for n := 0; n < 500 && s.Hold(n) == nil; n += 5 {
				}
				s.Release()
			}
		})
	}
	if all.Wait(); b.bytes != 0 || len(b.large) != 0 {
		t.Errorf("%d bytes of %d shares count after all were released", b.bytes, len(b.large))
	}
}
