package limit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/providers/limit"
)

// begun records the sessions whose requests got a slot, in order.
type begun struct {
	mu   sync.Mutex
	list []string
}

func (b *begun) add(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, session)
}

func (b *begun) sessions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.list)
}

// ask requests a slot for a session in its own goroutine.
func ask(t *testing.T, l *limit.Limiter, session string, order *begun, hold time.Duration) {
	go func() {
		done, err := l.Acquire(t.Context(), "p", session)
		if err != nil {
			order.add("error")
			return
		}
		order.add(session)
		time.Sleep(hold)
		done()
	}()
	synctest.Wait()
}

func TestSessionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Options{Concurrency: 1})
		var order begun
		for range 5 {
			ask(t, l, "greedy", &order, time.Second)
		}
		ask(t, l, "modest", &order, time.Second)
		ask(t, l, "other", &order, time.Second)
		time.Sleep(10 * time.Second)
		want := []string{"greedy", "greedy", "modest", "other", "greedy", "greedy", "greedy"}
		if !slices.Equal(want, order.sessions()) {
			t.Errorf("got %v, want %v", order.sessions(), want)
		}
	})
}

func TestRequestsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Options{PerMinute: 2})
		var order begun
		for range 5 {
			ask(t, l, "s", &order, 0)
		}
		for _, c := range []struct {
			after time.Duration
			begun int
		}{{0, 2}, {59 * time.Second, 2}, {time.Second, 4}, {time.Minute, 5}} {
			time.Sleep(c.after)
			synctest.Wait()
			if n := len(order.sessions()); n != c.begun {
				t.Errorf("after another %s %d have begun, want %d", c.after, n, c.begun)
			}
		}
	})
}

func TestAPauseIsKeptAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Options{MaxPause: 10 * time.Second})
		l.Throttled("p", time.Hour)
		var order begun
		ask(t, l, "s", &order, 0)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if len(order.sessions()) != 0 {
			t.Error("asked during the pause")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(order.sessions()) != 1 {
			t.Error("not asked after the longest pause")
		}
	})
}

func TestCancelledRequestLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.New(limit.Options{Concurrency: 1, MaxWaiting: 1})
		done, err := l.Acquire(t.Context(), "p", "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := l.Acquire(ctx, "p", "b")
			failed <- err
		}()
		synctest.Wait()
		if _, err := l.Acquire(t.Context(), "p", "c"); err == nil || !strings.Contains(err.Error(), "too many") {
			t.Errorf("one too many: %v", err)
		}
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		done()
		done() // a second call changes nothing
		for _, provider := range []string{"p", "q"} {
			if _, err := l.Acquire(t.Context(), provider, "d"); err != nil {
				t.Error(err)
			}
		}
	})
}
