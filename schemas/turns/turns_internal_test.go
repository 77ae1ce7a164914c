package turns

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// Who waits gets its turn, and waits only for others of its key. Nothing is kept of a key that nobody uses.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, got := New[string](10), make(chan int, 3)
		take := func(key string, n int) func() {
			release, err := turns.Wait(t.Context(), key, n)
			if err != nil {
				t.Fatal(err)
			}
			return release
		}
		first := take("a", 100) // all of them
		for n, units := range []int{10, 1, 9} {
			go func() {
				defer take("a", units)()
				got <- n
			}()
			synctest.Wait()
		}
		take("b", 10)()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := turns.Wait(ctx, "a", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that has gone: %v", err)
		}
		if len(got) > 0 || turns.Idle() {
			t.Errorf("%d had their turn before the first one's end", len(got))
		}
		first()
		first()
		synctest.Wait()
		if a, b, c := <-got, <-got, <-got; a != 0 || b+c != 3 || !turns.Idle() { // the last two fit together
			t.Errorf("turns %d, %d, %d; is anything left: %v", a, b, c, !turns.Idle())
		}
	})
}

// Who comes behind a crowd does not wait for all of it, and the first of the crowd not for all who come later.
func TestTurnsFromBothEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns, got := New[string](10), []int(nil)
		first, err := turns.Wait(t.Context(), "a", 10)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 6 {
			go func() {
				release, err := turns.Wait(t.Context(), "a", 10)
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, n)
				release()
			}()
			synctest.Wait()
		}
		gone, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := turns.Wait(gone, "a", 10); !errors.Is(err, context.Canceled) {
				t.Errorf("who has gone: %v", err)
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		first()
		synctest.Wait()
		if fmt.Sprint(got) != "[0 5 1 4 2 3]" || !turns.Idle() {
			t.Errorf("turns: %v", got)
		}
	})
}
