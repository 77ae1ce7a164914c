package reader

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Goroutines are used again, those that a burst needed end, and so do all that have nothing to do.
func TestPool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		flown := 0
		var mu sync.Mutex
		end := make(chan struct{})
		c := &pool{next: make(chan *flight), running: &running, end: end, fly: func(f *flight) {
			<-f.ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			flown++
		}}
		burst := func(n, flying, waiting int) {
			t.Helper()
			ctx, end := context.WithCancel(context.Background())
			before := flown
			for range n {
				c.start(&flight{ctx: ctx})
			}
			synctest.Wait()
			if int(c.idle.Load()) != flying {
				t.Errorf("while they fly %d goroutines wait", c.idle.Load())
			}
			end()
			synctest.Wait()
			if flown != before+n || int(c.idle.Load()) != waiting {
				t.Errorf("%d of %d flown, %d goroutines wait", flown-before, n, c.idle.Load())
			}
		}
		burst(2*maxIdle, 0, maxIdle)
		burst(maxIdle-1, 1, maxIdle)
		<-time.After(idleTime)
		running.Wait()
		burst(1, 0, 1)
		close(end)
		running.Wait()
	})
}
