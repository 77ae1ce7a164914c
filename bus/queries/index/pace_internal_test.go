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
		begun := time.Now()
		if err := p.run(t.Context(), func() error { time.Sleep(took); return errors.New("no") }); err == nil {
			t.Error("the error of the work is lost")
		}
		if now := time.Since(begun); now != took {
			t.Errorf("a single piece took %v", now)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex
		done, refused := 0, 0
		for range 100 {
			all.Go(func() {
				err := p.run(ctx, func() error { time.Sleep(took); return nil })
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
