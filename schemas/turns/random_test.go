package turns

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsAtRandom has many users come, take more, give up and go: never more is used than there is, everybody gets
// what it waits for, and nothing is left.
func TestTurnsAtRandom(t *testing.T) {
	t.Parallel()
	for range 50 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			const limit = 1000
			random := rand.New(rand.NewPCG(seed, 0))
			turns := New[int](limit)
			var used [2]atomic.Int64
			use := func(key, n int) {
				if now := used[key].Add(int64(n)); now > limit {
					t.Errorf("seed %d: %d are used of %d", seed, now, limit)
				}
			}
			var users sync.WaitGroup
			for range 300 {
				key, n, more := random.IntN(2), 1+random.IntN(1+random.IntN(2*limit)), random.IntN(50)
				comes, stays := random.IntN(1000), 1+random.IntN(50)
				patience := time.Duration(random.IntN(10)) * time.Second // 0: for ever
				users.Go(func() {
					time.Sleep(time.Duration(comes) * time.Millisecond)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if patience > 0 {
						ctx, cancel = context.WithTimeout(ctx, patience)
						defer cancel()
					}
					release, err := turns.Wait(ctx, key, n)
					if err != nil {
						return
					}
					n = min(n, limit)
					use(key, n)
					time.Sleep(time.Duration(stays) * time.Millisecond)
					if free, ok := turns.Take(key, more); ok {
						use(key, more)
						time.Sleep(time.Duration(stays) * time.Millisecond)
						used[key].Add(-int64(more))
						free()
					}
					used[key].Add(-int64(n))
					release()
				})
			}
			users.Wait()
			if !turns.Idle() {
				t.Errorf("seed %d: something is left", seed)
			}
		})
	}
}
