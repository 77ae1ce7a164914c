package reader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
)

// rejecting is a handler that rejects every message once lost is closed.
type rejecting struct {
	model
	lost chan struct{}
}

func (h *rejecting) Deliver(_ context.Context, m *reader.Message, _ func()) error {
	h.mu.Lock()
	h.started++
	h.mu.Unlock()
	<-h.lost
	m.Rejected = true
	return nil
}

// counting counts how often messages are refetched.
type counting struct {
	*queue
	refetched int
}

func (q *counting) Refetch(context.Context, *reader.Message) bool { q.refetched++; return false }

// TestRejectedMessageIsAcknowledgedByTheNextConsumer checks that a message that was rejected while there is no consumer
// waits for the next one, and is acknowledged when that one has redelivered it. However long that takes, it is not
// rejected a second time, and hardly ever refetched.
func TestRejectedMessageIsAcknowledgedByTheNextConsumer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &counting{queue: newQueue()}, &rejecting{lost: make(chan struct{})}
		r := run(t, 1, alone{}, q, h)
		first := <-q.created
		for n := range uint64(3) {
			r.Receive(first, n+1, &reader.Message{Seq: n + 1, Session: "s1", Body: nothing{}}, "reply")
		}
		synctest.Wait()
		q.failures.Store(100)
		r.Break(first, errors.New("the connection was lost"))
		time.Sleep(time.Second)
		close(h.lost)
		next := <-q.created // after more than a minute
		synctest.Wait()
		if n := h.deliveries(); n != 3 {
			t.Errorf("rejected %d times, want each of three once", n)
		}
		if len(q.acked) != 0 {
			t.Errorf("%d were acknowledged before the consumer in use had delivered them", len(q.acked))
		}
		q.refetched = 0
		time.Sleep(5 * time.Second) // before the consumer delivers
		for n := range uint64(3) {
			r.Receive(next, n+1, &reader.Message{Seq: n + 1, Session: "s1", Body: nothing{}}, "next reply")
		}
		time.Sleep(2 * time.Second)
		if n := h.deliveries(); n != 3 || len(q.acked) != 3 {
			t.Errorf("rejected %d times and acknowledged %d times, want three each", n, len(q.acked))
		}
		if q.refetched > 3 {
			t.Errorf("refetched %d times", q.refetched)
		}
		for len(q.acked) > 0 {
			if reply := <-q.acked; reply != "next reply" {
				t.Errorf("acknowledged the delivery of a deleted consumer")
			}
		}
	})
}
