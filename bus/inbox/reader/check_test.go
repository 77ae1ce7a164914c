package reader_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/membership"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

const handoverWait = 2 * time.Second

// alone is the network of the only runner.
type alone struct{}

func (alone) Join(func([]byte)) (func(), error)        { return func() {}, nil }
func (alone) Publish([]byte) error                     { return nil }
func (alone) Unconnected(context.Context, string) bool { return false }
func (alone) Listed(context.Context) ([]string, error) { return nil, nil }
func (alone) Enlist(context.Context, time.Time) error  { return nil }
func (alone) Remove(context.Context) error             { return nil }

// queue creates consumers. The test calls [reader.Reader.Receive] for their deliveries.
type queue struct {
	created  chan *reader.Consumer
	acked    chan string
	failures atomic.Int32 // that Create will return
}

func newQueue() *queue {
	return &queue{created: make(chan *reader.Consumer, 10), acked: make(chan string, 1000)}
}

func (q *queue) Create(context.Context, *reader.Consumer) (uint64, error) {
	if q.failures.Add(-1) >= 0 {
		return 0, errors.New("no leader")
	}
	return 0, nil
}

func (q *queue) Consume(c *reader.Consumer) error             { q.created <- c; return nil }
func (q *queue) Stop()                                        {}
func (q *queue) Delete(context.Context, string) (bool, error) { return true, nil }
func (q *queue) Names(context.Context) ([]string, error)      { return nil, nil }
func (q *queue) Reads(context.Context, string) ([]int, error) { return nil, nil }
func (q *queue) Counts(context.Context, string) (delivered, settled uint64, err error) {
	return 1, 0, nil
}
func (q *queue) First(context.Context, reader.Place, uint64) (uint64, error) { return 0, nil }
func (q *queue) Stored(context.Context, *reader.Consumer) (map[reader.Place]int, error) {
	return nil, nil
}
func (q *queue) Clear()                                        {}
func (q *queue) Ack(reply string)                              { q.acked <- reply }
func (q *queue) Refetch(context.Context, *reader.Message) bool { return false }

// model is a handler whose first delivery waits until it is cancelled.
type model struct {
	mu      sync.Mutex
	started int
	owned   error // what Owns returns
}

func (m *model) Deliver(ctx context.Context, _ *reader.Message, entered func()) error {
	m.mu.Lock()
	m.started++
	first := m.started == 1
	m.mu.Unlock()
	entered()
	if first {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

func (m *model) Owns(context.Context, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned
}

func (m *model) setOwned(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = err
}

func (m *model) deliveries() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.started
}

func (m *model) Refuse(context.Context, *reader.Message, string) error  { return nil }
func (m *model) GiveUp(context.Context, *reader.Message, string) error  { return nil }
func (m *model) Attempt(context.Context, uint64) (lost int, end func()) { return 0, func() {} }
func (m *model) Void(context.Context, *reader.Message) bool             { return false }

// run starts a Reader of this many partitions, which reads until the test ends.
func run(t *testing.T, partitions int, network membership.Network, q reader.Queue, h reader.Handler) *reader.Reader {
	log := slog.New(slog.DiscardHandler)
	r := reader.New(reader.Options{
		ID: "r1", Nonce: "n", HandoverWait: handoverWait, StopTimeout: time.Second, MaxDeliver: 5, MaxSessions: 10,
		MaxInFlight: maxInFlight, Queue: q, Handler: h, Logger: log, Count: func(string) {},
		Members: membership.New(membership.Options{ID: "r1", Network: network, DeadAfter: time.Second, Logger: log}),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, partitions) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestSessionsAtWorkAreVerifiedPeriodically has another runner extend a session, unnoticed, while this one waits for a
// model: the delivery is cancelled and starts again. If the ownership is not known, the delivery goes on.
func TestSessionsAtWorkAreVerifiedPeriodically(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := newQueue(), &model{}
		r := run(t, 1, alone{}, q, h)
		r.Receive(<-q.created, 1, &reader.Message{Seq: 1, Session: "s1"}, "reply")

		const often = time.Minute
		for name, answer := range map[string]error{"the runner's own": nil, "not known": errors.New("no answer")} {
			h.setOwned(answer)
			time.Sleep(often)
			if n := h.deliveries(); n != 1 {
				t.Errorf("%s: delivered %d times, want once", name, n)
			}
		}
		h.setOwned(&schemas.ConflictError{Session: "s1", Seq: 5})
		time.Sleep(often)
		if n := h.deliveries(); n != 2 || len(q.acked) != 1 {
			t.Errorf("lost: delivered %d times and acknowledged %d times, want twice and once", n, len(q.acked))
		}
	})
}
