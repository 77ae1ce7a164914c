package reader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

// waiting is a handler whose deliveries all wait until they are cut off.
type waiting struct {
	model
	mu  sync.Mutex
	cut map[string][]error // why, by session
}

func (w *waiting) Deliver(ctx context.Context, m *reader.Message, entered func()) error {
	entered()
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[m.Session] = append(w.cut[m.Session], context.Cause(ctx))
	return context.Cause(ctx)
}

func (w *waiting) cuts(session string) []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.cut[session])
}

// pair is the network of a runner and another one, r2, which reads nothing and lives until stop is closed.
type pair struct {
	alone
	comes, stop chan struct{}
}

func (p pair) Join(receive func([]byte)) (func(), error) {
	go func() {
		<-p.comes
		for {
			receive([]byte(`{"id":"r2","started":"2026-01-01T00:00:00Z"}`))
			select {
			case <-p.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() {}, nil
}

// TestWhatHasMovedIsLeft has partitions move to another runner while their sessions wait for a model. They are busy, so
// they stay until the handover has waited for long enough, and then are cut off at once. That the other runner has not
// extended them yet changes nothing.
func TestWhatHasMovedIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := newQueue(), &waiting{cut: map[string][]error{}}
		network := pair{comes: make(chan struct{}), stop: make(chan struct{})}
		defer close(network.stop)
		const partitions = 4
		r := run(t, partitions, network, q, h)
		first := <-q.made
		for n := range partitions {
			r.Receive(first, uint64(n+1), &reader.Message{
				Seq: uint64(n + 1), Partition: n, Session: fmt.Sprint("s", n), Body: nothing{},
			}, "settle")
		}

		synctest.Wait() // until all have begun
		close(network.comes)
		time.Sleep(handoverWait - 100*time.Millisecond)
		for n := range partitions {
			if got := h.cuts(fmt.Sprint("s", n)); len(got) > 0 {
				t.Errorf("s%d was cut off before the handover had waited: %v", n, got)
			}
		}
		time.Sleep(time.Second)
		reads := r.Partitions()
		if len(reads) == 0 || len(reads) == partitions {
			t.Fatalf("reads %v beside another runner", reads)
		}
		for n := range partitions {
			got := h.cuts(fmt.Sprint("s", n))
			switch stays := slices.Contains(reads, n); {
			case stays && len(got) > 0:
				t.Errorf("s%d was cut off for %v, although its partition has not moved", n, got)
			case !stays && (len(got) != 1 || !errors.Is(got[0], reader.ErrMoved)):
				t.Errorf("s%d, whose partition has moved, was cut off for %v", n, got)
			}
		}
	})
}

// TestWorkOfALostConsumerIsVerifiedAtOnce has a consumer break while sessions wait for a model: what another runner has
// extended meanwhile, or may have, is begun anew when the next consumer delivers it.
func TestWorkOfALostConsumerIsVerifiedAtOnce(t *testing.T) {
	t.Parallel()
	lost := &schemas.ConflictError{Session: "s1", Seq: 5}
	for name, c := range map[string]struct {
		owns     error
		failures int // of making the next consumer
		cuts     int
	}{
		"the runner's own":             {nil, 0, 0},
		"lost":                         {lost, 0, 1},
		"lost, and servers do not act": {lost, 3, 1},
		"not known":                    {errors.New("no answer"), 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, h := newQueue(), &waiting{cut: map[string][]error{}}
				r := run(t, 1, alone{}, q, h)
				message := &reader.Message{Seq: 1, Session: "s1", Body: nothing{}}
				r.Receive(<-q.made, 1, message, "settle")
				synctest.Wait()

				h.owns(c.owns)
				q.failures.Store(int32(c.failures))
				r.Break(nil, reader.ErrGone)
				next := <-q.made
				time.Sleep(time.Second)
				r.Receive(next, 1, message, "settle again")
				time.Sleep(time.Second)
				if got := h.cuts("s1"); len(got) != c.cuts {
					t.Errorf("cut off %d times, %v, want %d", len(got), got, c.cuts)
				}
				if inFlight, _ := r.Load(); inFlight != 1 {
					t.Errorf("%d messages in flight, want the one that was delivered again", inFlight)
				}
			})
		})
	}
}

// nothing is the content of a message that has none to let go.
type nothing struct{}

func (nothing) LetGo() bool { return false }
