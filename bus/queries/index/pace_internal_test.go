package index

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Work of which there is always more takes a tenth of the time; work now and then begins at once.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const took = 100 * time.Millisecond
		var p pace
		work := func(ctx context.Context) error {
			end, err := p.begin(ctx)
			if err == nil {
				time.Sleep(took) // in the time of synctest
				end(took)
			}
			return err
		}
		begun := time.Now()
		if err := work(t.Context()); err != nil || time.Since(begun) != took {
			t.Errorf("a single piece took %v, %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex
		done, refused := 0, 0
		for range 100 {
			all.Go(func() {
				err := work(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					done++
				} else if errors.Is(err, context.DeadlineExceeded) {
					refused++
				}
			})
		}
		if all.Wait(); done < 9 || done > 10 || done+refused != 100 {
			t.Errorf("%d pieces in ten seconds, %d refused", done, refused)
		}
	})
}
