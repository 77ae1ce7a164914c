package reader_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
)

// overlapping is the network of two runners, of which the other one says that it reads all partitions while reads is
// true.
type overlapping struct {
	alone
	reads *atomic.Bool
	stop  chan struct{}
}

func (o overlapping) Join(receive func([]byte)) (func(), error) {
	go func() {
		for {
			reads := "[]"
			if o.reads.Load() {
				reads = "[0,1,2,3]"
			}
			receive(fmt.Appendf(nil, `{"id":"r2","started":"2026-01-01T00:00:00Z","reads":%s}`, reads))
			select {
			case <-o.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() {}, nil
}

// driven is a handler whose first message has a run that lasts until done. It drives the session for the others.
type driven struct {
	model
	done atomic.Bool
}

func (h *driven) Deliver(ctx context.Context, m *reader.Message, entered func()) error {
	entered()
	for m.Seq == 1 && !h.done.Load() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return ctx.Err()
}

// clustered is the queue of a cluster.
type clustered struct{ *queue }

func (q clustered) Create(ctx context.Context, c *reader.Consumer) (uint64, error) {
	c.Clustered = true
	return q.queue.Create(ctx, c)
}

// While another runner reads a partition too, it may settle the message on whose work another message depends. Then
// none is settled before the session is at rest and one runner alone has it, also if the runners do not know it yet.
func TestOverlappingReadersLeaveAMessage(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"known": true, "not known yet": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { overlap(t, known) })
		})
	}
}

func overlap(t *testing.T, known bool) {
	q, h := clustered{newQueue()}, &driven{}
	network := overlapping{reads: new(atomic.Bool), stop: make(chan struct{})}
	defer close(network.stop)
	r := run(t, 4, network, q, h)
	created := func() *reader.Consumer {
		select {
		case c := <-q.created:
			return c
		case <-time.After(time.Minute):
			t.Fatal("no consumer")
			return nil
		}
	}
	var first *reader.Consumer
	for first == nil || len(first.Reads) == 4 { // until the other one has its share
		first = created()
	}
	deliver := func(c *reader.Consumer, reply string) {
		for n := range uint64(2) {
			m := message(n + 1)
			m.Partition = first.Reads[0]
			r.Receive(c, n+1, m, reply)
		}
	}
	if known {
		network.reads.Store(true)
		time.Sleep(2 * time.Second)
	}
	deliver(first, "shared")
	time.Sleep(500 * time.Millisecond)
	network.reads.Store(true)
	time.Sleep(time.Second)
	if n := len(q.acked); n != 0 {
		t.Errorf("%d messages were settled", n)
	}
	network.reads.Store(false)
	deliver(created(), "alone")
	h.done.Store(true)
	time.Sleep(3 * time.Second)
	if n := len(q.acked); n != 2 {
		t.Errorf("%d messages were settled by the only reader, want 2", n)
	}
	for range len(q.acked) {
		if reply := <-q.acked; reply != "alone" {
			t.Errorf("settled by %s", reply)
		}
	}
}
