package reader

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPoolReusesGoroutines checks that goroutines are reused, that those beyond maxIdle end after a burst, and that all
// of them end after idleTime.
func TestPoolReusesGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		processed := 0
		var mu sync.Mutex
		end := make(chan struct{})
		p := &pool{next: make(chan *delivery), running: &running, end: end, process: func(d *delivery) {
			<-d.ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			processed++
		}}
		burst := func(n, during, after int) {
			t.Helper()
			ctx, end := context.WithCancel(context.Background())
			before := processed
			for range n {
				p.start(&delivery{ctx: ctx})
			}
			synctest.Wait()
			if int(p.idle.Load()) != during {
				t.Errorf("%d goroutines wait during the burst", p.idle.Load())
			}
			end()
			synctest.Wait()
			if processed != before+n || int(p.idle.Load()) != after {
				t.Errorf("%d of %d processed, %d goroutines wait", processed-before, n, p.idle.Load())
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
