package reader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
)

const maxInFlight = 200

// stuck is a handler that finds no memory for sessions until it may go on.
type stuck struct {
	model
	free      chan struct{}
	refusing  chan struct{} // closed once messages may be refused
	delivered []uint64
	refused   []uint64
}

func newStuck() *stuck { return &stuck{free: make(chan struct{}), refusing: make(chan struct{})} }

func (h *stuck) Deliver(ctx context.Context, m *reader.Message, entered func()) error {
	select {
	case <-h.free:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	entered()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delivered = append(h.delivered, m.Seq)
	return nil
}

func (h *stuck) Refuse(_ context.Context, m *reader.Message, _ string) error {
	<-h.refusing
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = append(h.refused, m.Seq)
	return nil
}

// A session keeps few places, once half of them are taken: what has been sent to it beyond that, and waits, is refused,
// the newest. What the session itself has requested is not.
func TestSessionsKeepFewPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind           reader.Kind
		count, refused int
	}{
		"few":      {reader.Command, maxInFlight/2 - 10, 0},
		"many":     {reader.Command, 130, 130 - 65}, // one is at work
		"too many": {reader.Command, 180, 180 - 17},
		"results":  {reader.Result, 130, 0},
		"timers":   {reader.System, 180, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, h := newQueue(), newStuck()
				close(h.refusing)
				r := run(t, 1, alone{}, q, h)
				consumer, seq := <-q.created, uint64(0)
				send := func(m reader.Message) {
					seq++
					m.Seq, m.Session, m.Body = seq, "s1", kept{}
					r.Receive(consumer, seq, &m, strconv.FormatUint(seq, 10))
				}
				for range c.count {
					send(reader.Message{Kind: c.kind})
				}
				for range 5 {
					send(reader.Message{Urgent: true, Kind: reader.Result, Yields: true})
					send(reader.Message{Urgent: true, Kind: reader.Urgent, Aborts: true})
				}
				time.Sleep(time.Second)
				if len(q.acked) > 0 {
					t.Error("refused at once")
				}
				time.Sleep(7500 * time.Millisecond) // not at a look
				if n, _ := r.Load(); n != int(seq)-c.refused || len(h.refused) != c.refused || len(q.acked) != c.refused {
					t.Errorf("%d in flight, %d refused, %d acknowledged; want %d refused", n, len(h.refused), len(q.acked), c.refused)
				}
				if has, _ := r.Load(); c.refused > 0 { // and what comes now is refused at once, if few places are left
					for range 50 {
						send(reader.Message{Kind: c.kind})
					}
					synctest.Wait()
					if n, want := len(h.refused)-c.refused, max(0, has+50-maxInFlight/2-1); n != want {
						t.Errorf("%d of those that came then were refused, want %d", n, want)
					}
				}
				close(h.free)
				synctest.Wait()
				if n, _ := r.Load(); n != 0 {
					t.Errorf("%d are left", n)
				}
				all := slices.Sorted(slices.Values(slices.Concat(h.delivered, h.refused)))
				if len(all) != int(seq) || len(slices.Compact(all)) != int(seq) {
					t.Errorf("of %d, %d were delivered and %d refused", seq, len(h.delivered), len(h.refused))
				}
				for i, n := range slices.Sorted(slices.Values(h.refused))[:c.refused] {
					if want := uint64(c.count - c.refused + 1 + i); n != want {
						t.Fatal(fmt.Errorf("message %d was refused, want %d", n, want))
					}
				}
			})
		})
	}
}

// A message that is to be refused keeps no place if its consumer is replaced, and another runner settles it.
func TestRefusalsEndWithTheirConsumer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const count, refused = 130, 130 - 65
		q, h := newQueue(), newStuck()
		r := run(t, 1, alone{}, q, h)
		consumer := <-q.created
		receive := func(nth, seq uint64) {
			m := &reader.Message{Seq: seq, Session: "s1", Kind: reader.Command, Body: kept{}}
			r.Receive(consumer, nth, m, strconv.FormatUint(seq, 10))
		}
		for seq := range uint64(count) {
			receive(seq+1, seq+1)
		}
		time.Sleep(7500 * time.Millisecond)
		r.Break(consumer, errors.New("lost"))
		consumer = <-q.created
		receive(1, count) // the others were settled elsewhere
		close(h.refusing)
		synctest.Wait()
		if n, _ := r.Load(); n != count-refused || len(q.acked) != 1 {
			t.Errorf("%d are in flight and %d acknowledged, want %d and 1", n, len(q.acked), count-refused)
		}
		close(h.free)
	})
}
