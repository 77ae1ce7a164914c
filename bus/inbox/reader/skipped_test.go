package reader_test

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
)

// replicated is the queue of a cluster: it knows which messages of session s1 are stored.
type replicated struct {
	*queue
	mu     sync.Mutex
	stored []uint64
}

func (q *replicated) store(seqs ...uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stored = seqs
}

// replacement waits for the next consumer.
func (q *replicated) replacement(t *testing.T) *reader.Consumer {
	select {
	case c := <-q.created:
		return c
	case <-time.After(time.Minute):
		t.Fatal("the consumer was not replaced")
		return nil
	}
}

func (q *replicated) First(_ context.Context, _ reader.Place, after uint64) (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, seq := range q.stored {
		if seq > after {
			return seq, nil
		}
	}
	return 0, nil
}

func (q *replicated) Refetch(_ context.Context, m *reader.Message) (deleted bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !slices.Contains(q.stored, m.Seq)
}

func (q *replicated) Stored(context.Context, *reader.Consumer) (map[reader.Place]int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return map[reader.Place]int{{Session: "s1"}: len(q.stored)}, nil
}

// Counts never shows a delivery or an acknowledgement that was lost.
func (q *replicated) Counts(context.Context, string) (delivered, settled uint64, err error) {
	return 0, math.MaxUint64, nil
}

// inOrder is a handler that remembers what entered.
type inOrder struct {
	model
	entered []uint64
}

func (h *inOrder) Deliver(_ context.Context, m *reader.Message, entered func()) error {
	h.mu.Lock()
	h.entered = append(h.entered, m.Seq)
	h.mu.Unlock()
	entered()
	return nil
}

func (h *inOrder) has(seqs ...uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Equal(h.entered, seqs)
}

func message(seq uint64) *reader.Message {
	return &reader.Message{Seq: seq, Session: "s1", Body: nothing{}}
}

// A consumer that skips a message and delivers the next one is replaced before that one starts.
func TestASkippedMessageIsNotOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &replicated{queue: newQueue()}, &inOrder{}
		q.store(1, 2, 3)
		r := run(t, 1, alone{}, q, h)
		c := <-q.created
		r.Receive(c, 1, message(2), "skipping")
		r.Receive(c, 2, message(3), "skipping")
		next := q.replacement(t)
		synctest.Wait()
		if !h.has() || len(q.acked) != 0 {
			t.Fatalf("%v entered before the message that was skipped", h.entered)
		}
		for n := range uint64(3) {
			r.Receive(next, n+1, message(n+1), "complete")
		}
		synctest.Wait()
		q.store()
		time.Sleep(2 * time.Second)
		if !h.has(1, 2, 3) || len(q.acked) != 3 || len(q.created) != 0 {
			t.Errorf("%v entered, %d acknowledged, %d more consumers", h.entered, len(q.acked), len(q.created))
		}
	})
}

// None of the messages behind a skipped one starts while there is no other consumer, however long that takes.
func TestNothingStartsBehindASkippedMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &replicated{queue: newQueue()}, &inOrder{}
		q.store(1, 2, 3, 4, 5)
		r := run(t, 1, alone{}, q, h)
		c := <-q.created
		q.failures.Store(100) // more than a minute
		time.Sleep(12 * time.Second)
		for n := range uint64(4) {
			r.Receive(c, n+1, message(n+2), "skipping")
		}
		time.Sleep(time.Minute)
		if !h.has() {
			t.Errorf("%v entered before the message that was skipped", h.entered)
		}
		next := q.replacement(t)
		for n := range uint64(5) {
			r.Receive(next, n+1, message(n+1), "complete")
		}
		time.Sleep(2 * time.Second)
		if !h.has(1, 2, 3, 4, 5) || len(q.acked) != 5 {
			t.Errorf("%v entered, %d acknowledged", h.entered, len(q.acked))
		}
	})
}

// A consumer that has delivered everything for a minute may skip a message all the same.
func TestAnOldConsumerMaySkip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &replicated{queue: newQueue()}, &inOrder{}
		q.store(1)
		r := run(t, 1, alone{}, q, h)
		c := <-q.created
		r.Receive(c, 1, message(1), "reply")
		synctest.Wait()
		q.store()
		time.Sleep(time.Minute)
		q.store(2, 3)
		r.Receive(c, 2, message(3), "skipping")
		next := q.replacement(t)
		synctest.Wait()
		if !h.has(1) {
			t.Fatalf("%v entered before the message that was skipped", h.entered)
		}
		r.Receive(next, 1, message(2), "complete")
		r.Receive(next, 2, message(3), "complete")
		synctest.Wait()
		if !h.has(1, 2, 3) {
			t.Errorf("%v entered", h.entered)
		}
	})
}

// A message that is stored while its acknowledgement is on the way was not skipped.
func TestAnAcknowledgementOnItsWayIsNoSkip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &replicated{queue: newQueue()}, &inOrder{}
		q.store(1, 2)
		r := run(t, 1, alone{}, q, h)
		c := <-q.created
		r.Receive(c, 1, message(1), "reply")
		synctest.Wait() // it is settled, and the session is forgotten
		r.Receive(c, 2, message(2), "reply")
		synctest.Wait()
		if !h.has(1, 2) {
			t.Errorf("the second one waits for the acknowledgement of the first")
		}
		q.store(2)
		time.Sleep(time.Second)
		if len(q.created) != 0 {
			t.Errorf("%d more consumers", len(q.created))
		}
	})
}

// A message that is deleted with its session while an earlier one is looked for does not start.
func TestADeletedMessageDoesNotStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &replicated{queue: newQueue()}, &inOrder{}
		q.store(1, 2)
		r := run(t, 1, alone{}, q, h)
		r.Receive(<-q.created, 1, message(2), "reply")
		time.Sleep(100 * time.Millisecond)
		q.store()
		time.Sleep(10 * time.Second)
		if !h.has() || len(q.acked) != 0 {
			t.Errorf("%v entered, %d acknowledged", h.entered, len(q.acked))
		}
	})
}

// What another runner has settled may be stored for a moment. It keeps the next message no longer than that.
func TestAnothersAcknowledgementOnItsWayIsNoSkip(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &replicated{queue: newQueue()}, &inOrder{}
		q.store(1, 2)
		r := run(t, 1, alone{}, q, h)
		r.Receive(<-q.created, 1, message(2), "reply")
		time.Sleep(50 * time.Millisecond)
		q.store(2)
		time.Sleep(50 * time.Millisecond)
		if !h.has(2) || len(q.created) != 0 {
			t.Errorf("%v entered, %d more consumers", h.entered, len(q.created))
		}
	})
}

// A message that the consumer has skipped, and behind which none comes, is not left to wait for the next consumer.
func TestASkippedMessageIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &replicated{queue: newQueue()}, &inOrder{}
		q.store(1)
		r := run(t, 1, alone{}, q, h)
		<-q.created
		next := q.replacement(t)
		r.Receive(next, 1, message(1), "reply")
		synctest.Wait()
		q.store()
		time.Sleep(time.Minute)
		if !h.has(1) || len(q.created) != 0 {
			t.Errorf("%v entered, %d more consumers", h.entered, len(q.created))
		}
	})
}
