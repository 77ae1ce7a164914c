package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/shares"
)

const (
	// liveMessages limits the live messages that wait for a slow reader. More are dropped, and read from the log.
	liveMessages = 1024
	// liveBytes limits what a connection has received for one reader and not queued yet, which takes no time.
	liveBytes = 16 << 20
	// maxAhead limits what all readers of a client have in memory that they have not yielded: live messages, and
	// messages read from streams. Each may have freely bytes besides, so that small ones always arrive live.
	maxAhead = 64 << 20
	freely   = 16 << 10
)

// ahead is what one reader has in memory and has not yielded.
type ahead struct {
	of     *shares.Shares
	caller string

	mu     sync.Mutex
	bytes  int
	closed bool
}

// add adds n bytes, or takes them off if n is negative. It changes nothing and returns false if there is no room.
func (a *ahead) add(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	more := max(a.bytes+n-freely, 0) - max(a.bytes-freely, 0)
	switch {
	case more > 0 && !a.of.Take(a.caller, more):
		return false
	case more < 0:
		a.of.Release(a.caller, -more)
	}
	a.bytes += n
	return true
}

// keep takes off what is more than n bytes. Only a reader that is alone with what it has may call it.
func (a *ahead) keep(n int) { a.add(min(n-a.bytes, 0)) }

// close takes all bytes off. Nothing is added afterwards.
func (a *ahead) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of.Release(a.caller, max(a.bytes-freely, 0))
	a.bytes, a.closed = 0, true
}

// feed is a subscription to a part of the live feed, which all taps of a client share: the server sends each message
// once. It ends connections that cannot take in at once what is sent, such as a large event for each of many viewers.
type feed struct {
	subject string
	before  error // last error of the connection before the subscription
	sub     *nats.Subscription

	mu   sync.Mutex
	taps map[*tap]struct{}
}

// feeds are the feeds of a client, by subject.
type feeds struct {
	mu        sync.Mutex
	bySubject map[string]*feed
}

// join adds a tap to the feed of a subject, which it subscribes to if the tap is the first.
func (fs *feeds) join(t *tap, subject string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.bySubject[subject]
	if f == nil {
		f = &feed{subject: subject, before: t.nc.LastError(), taps: map[*tap]struct{}{}}
		var err error
		if f.sub, err = t.nc.Subscribe(subject, f.receive); err != nil {
			return err
		}
		_ = f.sub.SetPendingLimits(-1, liveBytes) // it fails for closed subscriptions only
		fs.bySubject[subject] = f
	}
	t.feed = f
	t.dropped, _ = f.sub.Dropped()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taps[t] = struct{}{}
	return nil
}

// leave takes a tap off its feed, which ends with the last.
func (fs *feeds) leave(t *tap) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := t.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.taps, t); len(f.taps) == 0 {
		_ = f.sub.Unsubscribe()
		delete(fs.bySubject, f.subject)
	}
}

// receive is called by a goroutine of the connection.
func (f *feed) receive(m *nats.Msg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t := range f.taps {
		t.receive(m)
	}
}

// tap receives a part of the live feed. It is used by one goroutine, besides the connection's own that delivers the
// messages, which other taps receive, too.
type tap struct {
	nc      *nats.Conn
	feeds   *feeds
	feed    *feed
	live    chan *nats.Msg
	woken   chan struct{}    // receives a value when a message was dropped
	status  chan nats.Status // connected again, or closed
	ahead   ahead            // what is in live
	refused atomic.Int64     // messages that found no room
	dropped int              // refused, and dropped by the connection, at the last call of missed
}

// tap joins the feed of a subject. It returns once the server has confirmed or refused the subscription. If the
// connection is lost, the subscription is made again after reconnecting. The caller must close the tap.
func (c *Client) tap(ctx context.Context, subject string) (*tap, error) {
	t := &tap{nc: c.nc, feeds: &c.feeds, live: make(chan *nats.Msg, c.pendingLimit), woken: make(chan struct{}, 1),
		ahead: ahead{of: c.ahead, caller: subject}}
	if err := c.feeds.join(t, subject); err != nil {
		return nil, err
	}
	t.status = c.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	err := c.retry(ctx, c.flush)
	if err == nil && !errors.Is(c.nc.LastError(), t.feed.before) {
		err = c.explain(nil, subject)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// receive queues a message, or drops it if there is no room. It does not wait.
func (t *tap) receive(m *nats.Msg) {
	if t.ahead.add(m.Size()) {
		select {
		case t.live <- m:
			return
		default:
			t.took(m)
		}
	}
	t.refused.Add(1)
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// took is called with each message that was received from live.
func (t *tap) took(m *nats.Msg) { t.ahead.add(-m.Size()) }

func (t *tap) close() {
	t.nc.RemoveStatusListener(t.status)
	t.feeds.leave(t)
	t.ahead.close()
}

// missed reports whether live messages were dropped since the last call. It is false while messages that were queued
// before are still to be delivered.
func (t *tap) missed() (bool, error) {
	if t.nc.IsClosed() {
		return false, nats.ErrConnectionClosed
	}
	waiting, _, err := t.feed.sub.Pending()
	if err != nil || waiting+len(t.live) > 0 {
		return false, err
	}
	dropped, err := t.feed.sub.Dropped()
	if dropped += int(t.refused.Load()); dropped == t.dropped || err != nil {
		return false, err
	}
	t.dropped = dropped
	return true, nil
}

// flush waits until the server has received everything sent before. If the connection is lost meanwhile, nats.go
// returns ErrConnectionClosed although it reconnects; flush returns ErrDisconnected then.
func (c *Client) flush(ctx context.Context) error {
	err := c.nc.FlushWithContext(ctx)
	if errors.Is(err, nats.ErrConnectionClosed) && !c.nc.IsClosed() {
		return nats.ErrDisconnected
	}
	return err
}
