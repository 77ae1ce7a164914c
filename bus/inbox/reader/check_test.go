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

// alone is the network of a runner without others.
type alone struct{}

func (alone) Join(func([]byte)) (func(), error)        { return func() {}, nil }
func (alone) Publish([]byte) error                     { return nil }
func (alone) Unconnected(context.Context, string) bool { return false }
func (alone) Listed(context.Context) ([]string, error) { return nil, nil }
func (alone) Enlist(context.Context, time.Time) error  { return nil }
func (alone) Remove(context.Context) error             { return nil }

// queue makes consumers, for whose deliveries the test calls [reader.Reader.Receive].
type queue struct {
	made     chan *reader.Consumer
	acked    chan string
	failures atomic.Int32 // of Create to come
}

func newQueue() *queue {
	return &queue{made: make(chan *reader.Consumer, 10), acked: make(chan string, 10)}
}

func (q *queue) Create(context.Context, *reader.Consumer) (uint64, error) {
	if q.failures.Add(-1) >= 0 {
		return 0, errors.New("no leader")
	}
	return 0, nil
}

func (q *queue) Consume(c *reader.Consumer) error             { q.made <- c; return nil }
func (q *queue) Stop()                                        {}
func (q *queue) Delete(context.Context, string) (bool, error) { return true, nil }
func (q *queue) Names(context.Context) ([]string, error)      { return nil, nil }
func (q *queue) Counts(context.Context, string) (delivered, settled uint64, err error) {
	return 1, 0, nil
}
func (q *queue) Ack(settle string)                          { q.acked <- settle }
func (q *queue) Gone(context.Context, *reader.Message) bool { return false }

// model is a handler whose first delivery waits until it is cut off.
type model struct {
	mu     sync.Mutex
	begun  int
	answer error // of Owns
}

func (m *model) Deliver(ctx context.Context, _ *reader.Message, entered func()) error {
	m.mu.Lock()
	m.begun++
	first := m.begun == 1
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
	return m.answer
}

func (m *model) owns(answer error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

func (m *model) deliveries() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun
}

func (m *model) GiveUp(context.Context, *reader.Message, string) error  { return nil }
func (m *model) Attempt(context.Context, uint64) (lost int, end func()) { return 0, func() {} }
func (m *model) Keep(*reader.Message)                                   {}
func (m *model) Release(*reader.Message)                                {}

// run has a Reader read so many partitions until the test ends.
func run(t *testing.T, partitions int, network membership.Network, q reader.Queue, h reader.Handler) *reader.Reader {
	log := slog.New(slog.DiscardHandler)
	r := reader.New(reader.Options{
		ID: "r1", Nonce: "n", HandoverWait: handoverWait, StopTimeout: time.Second, MaxDeliver: 5, MaxSessions: 10,
		Queue: q, Handler: h, Logger: log, Count: func(string) {},
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

// TestWhatWaitsIsComparedWithItsLog has another runner extend a session while this one waits for a model, unseen: the
// work is given up and begun anew. A server that does not answer is no reason.
func TestWhatWaitsIsComparedWithItsLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := newQueue(), &model{}
		r := run(t, 1, alone{}, q, h)
		r.Receive(<-q.made, 1, &reader.Message{Seq: 1, Session: "s1"}, "settle")

		const often = time.Minute
		for name, answer := range map[string]error{"the runner's own": nil, "not known": errors.New("no answer")} {
			h.owns(answer)
			time.Sleep(often)
			if n := h.deliveries(); n != 1 {
				t.Errorf("%s: delivered %d times, want once", name, n)
			}
		}
		h.owns(&schemas.ConflictError{Session: "s1", Seq: 5})
		time.Sleep(often)
		if n := h.deliveries(); n != 2 || len(q.acked) != 1 {
			t.Errorf("lost: delivered %d times and acknowledged %d times, want twice and once", n, len(q.acked))
		}
	})
}
