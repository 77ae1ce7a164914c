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

// waiting is a handler whose deliveries all wait until they are cancelled.
type waiting struct {
	model
	mu     sync.Mutex
	causes map[string][]error // of cancelled deliveries, by session
}

func (w *waiting) Deliver(ctx context.Context, m *reader.Message, entered func()) error {
	entered()
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.causes[m.Session] = append(w.causes[m.Session], context.Cause(ctx))
	return context.Cause(ctx)
}

func (w *waiting) cancelled(session string) []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.causes[session])
}

// pair is the network of two runners. The other one, r2, joins when comes is closed, reads nothing, and lives until
// stop is closed.
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

// TestSessionsOfMovedPartitionsAreReleased has partitions move to another runner while their sessions wait for a model.
// The busy partitions stay until HandoverWait has passed. Then the deliveries are cancelled at once, although the other
// runner has not extended the sessions yet.
func TestSessionsOfMovedPartitionsAreReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := newQueue(), &waiting{causes: map[string][]error{}}
		network := pair{comes: make(chan struct{}), stop: make(chan struct{})}
		defer close(network.stop)
		const partitions = 4
		r := run(t, partitions, network, q, h)
		first := <-q.created
		for n := range partitions {
			r.Receive(first, uint64(n+1), &reader.Message{
				Seq: uint64(n + 1), Partition: n, Session: fmt.Sprint("s", n), Body: nothing{},
			}, "reply")
		}

		synctest.Wait() // until all have started
		close(network.comes)
		time.Sleep(handoverWait - 100*time.Millisecond)
		for n := range partitions {
			if got := h.cancelled(fmt.Sprint("s", n)); len(got) > 0 {
				t.Errorf("s%d was cancelled before HandoverWait: %v", n, got)
			}
		}
		time.Sleep(time.Second)
		reads := r.Partitions()
		if len(reads) == 0 || len(reads) == partitions {
			t.Fatalf("reads %v beside another runner", reads)
		}
		for n := range partitions {
			got := h.cancelled(fmt.Sprint("s", n))
			switch stays := slices.Contains(reads, n); {
			case stays && len(got) > 0:
				t.Errorf("s%d was cancelled for %v, although its partition has not moved", n, got)
			case !stays && (len(got) != 1 || !errors.Is(got[0], reader.ErrMoved)):
				t.Errorf("s%d, whose partition has moved, was cancelled for %v", n, got)
			}
		}
	})
}

// TestWorkOfALostConsumerIsVerifiedAtOnce has a consumer break while a session waits for a model. If another runner has
// extended the session, or if that is not known, the message starts again when the next consumer delivers it.
func TestWorkOfALostConsumerIsVerifiedAtOnce(t *testing.T) {
	t.Parallel()
	lost := &schemas.ConflictError{Session: "s1", Seq: 5}
	for name, c := range map[string]struct {
		owned     error
		failures  int // of making the next consumer
		cancelled int
	}{
		"the runner's own":             {nil, 0, 0},
		"lost":                         {lost, 0, 1},
		"lost, and servers do not act": {lost, 3, 1},
		"not known":                    {errors.New("no answer"), 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, h := newQueue(), &waiting{causes: map[string][]error{}}
				r := run(t, 1, alone{}, q, h)
				message := &reader.Message{Seq: 1, Session: "s1", Body: nothing{}}
				r.Receive(<-q.created, 1, message, "reply")
				synctest.Wait()

				h.setOwned(c.owned)
				q.failures.Store(int32(c.failures))
				r.Break(nil, reader.ErrConsumerNotFound)
				next := <-q.created
				time.Sleep(time.Second)
				r.Receive(next, 1, message, "reply of the next")
				time.Sleep(time.Second)
				if got := h.cancelled("s1"); len(got) != c.cancelled {
					t.Errorf("cancelled %d times, %v, want %d", len(got), got, c.cancelled)
				}
				if inFlight, _ := r.Load(); inFlight != 1 {
					t.Errorf("%d messages in flight, want the one that was delivered again", inFlight)
				}
			})
		})
	}
}

// nothing is the content of a message without a payload to drop.
type nothing struct{}

func (nothing) DropPayload() bool { return false }
