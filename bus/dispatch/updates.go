package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/backlog"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// callUpdates is how many bytes of partial results wait for the caller of a call, and allUpdates for all callers. More
	// are dropped.
	callUpdates, allUpdates = 1 << 20, 32 << 20

	// updatesTimeout bounds the requests on the connection for partial results, without which a call goes on.
	updatesTimeout = time.Second
)

// updates receives the partial results of calls. They have a connection of their own, which a NATS server ends if too
// much is published for it: that must cost no answer. Calls of one session share a subscription, because each partial
// result is delivered to all subscriptions of its session.
type updates struct {
	*bus.LazyConn
	subjects schemas.Subjects
	quota    *backlog.Quota

	mu    sync.Mutex
	calls int
	feeds map[string]*feed // by session
}

// feed has the queues of the calls of a session, by the number with which their partial results begin.
type feed struct {
	sub    *nats.Subscription
	queues map[uint64]*backlog.Queue
}

func newUpdates(c *bus.Conn) *updates {
	return &updates{LazyConn: c.Lazy("updates"), subjects: c.Subjects(), quota: backlog.NewQuota(allUpdates),
		feeds: map[string]*feed{}}
}

// follow returns the queue of the partial results of a call, from now until end. If there is no connection for them the
// queue stays empty.
func (u *updates) follow(ctx context.Context, req schemas.ToolRequest) (queue *backlog.Queue, end func()) {
	ctx, cancel := context.WithTimeout(ctx, updatesTimeout)
	defer cancel()
	queue = backlog.New(callUpdates, u.quota)
	nc, err := u.Open(ctx)
	if err == nil {
		err = u.add(nc, req, queue)
	}
	if err != nil {
		return queue, func() {}
	}
	_ = nc.FlushWithContext(ctx) // the call leaves by another connection
	return queue, func() { u.remove(req, queue) }
}

func (u *updates) add(nc *nats.Conn, req schemas.ToolRequest, queue *backlog.Queue) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.feeds[req.Session]
	if f == nil {
		sub, err := nc.Subscribe(u.subjects.LiveUpdate(req.Session), func(m *nats.Msg) { u.route(req.Session, m) })
		if err != nil {
			return err
		}
		f = &feed{sub: sub, queues: map[uint64]*backlog.Queue{}}
		u.feeds[req.Session] = f
	}
	f.queues[req.StartSeq] = queue
	u.calls++
	return nil
}

func (u *updates) remove(req schemas.ToolRequest, queue *backlog.Queue) {
	queue.Close()
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.feeds[req.Session]
	delete(f.queues, req.StartSeq)
	u.calls--
	if len(f.queues) == 0 {
		_ = f.sub.Unsubscribe() // fails only on a closed connection
		delete(u.feeds, req.Session)
	}
}

// route passes a partial result to its call.
func (u *updates) route(session string, m *nats.Msg) {
	_, event, err := schemas.UpdateOf(m.Header)
	if err != nil {
		return
	}
	u.mu.Lock()
	var queue *backlog.Queue
	if f := u.feeds[session]; f != nil {
		queue = f.queues[event]
	}
	share := u.quota.Share(u.calls)
	u.mu.Unlock()
	if queue != nil {
		queue.Add(m, share)
	}
}

// arrived waits until the partial results that were sent before an answer are in their queues. The answer has come by
// another connection.
func (u *updates) arrived(ctx context.Context) {
	nc := u.Opened()
	if nc == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, updatesTimeout)
	defer cancel()
	if nc.FlushWithContext(ctx) != nil {
		return
	}
	all := make(chan struct{})
	if nc.Barrier(func() { close(all) }) != nil {
		return
	}
	select {
	case <-all:
	case <-ctx.Done():
	}
}
