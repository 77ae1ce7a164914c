package client

import (
	"context"

	"github.com/nats-io/nats.go"
)

const (
	// What waits of the live feed for a slow reader; what comes then is dropped, and read from the log.
	liveMessages = 4096
	liveBytes    = 16 << 20
)

// tap is a subscription to a part of the live feed. It is of one goroutine, but for the one of the connection's that
// hands its messages over.
type tap struct {
	nc      *nats.Conn
	live    chan *nats.Msg   // one at a time; the connection keeps the others
	status  chan nats.Status // that the connection is back, or closed
	sub     *nats.Subscription
	dropped int
	ended   chan struct{}
}

// tap subscribes. The caller has to close the tap.
func (c *Client) tap(ctx context.Context, subject string) (*tap, error) {
	t := &tap{nc: c.nc, live: make(chan *nats.Msg), ended: make(chan struct{})}
	var err error
	t.sub, err = c.subscribe(ctx, subject, func(m *nats.Msg) {
		select {
		case t.live <- m:
		case <-t.ended:
		}
	})
	if err != nil {
		close(t.ended)
		return nil, err
	}
	t.status = c.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	return t, nil
}

func (t *tap) close() {
	t.nc.RemoveStatusListener(t.status)
	_ = t.sub.Unsubscribe()
	close(t.ended)
}

// missed reports whether the live feed has dropped something since it was asked last, and all of what it has kept was
// delivered.
func (t *tap) missed() (bool, error) {
	if t.nc.IsClosed() {
		return false, nats.ErrConnectionClosed
	}
	waiting, _, err := t.sub.Pending()
	if err != nil || waiting > 0 {
		return false, err
	}
	dropped, err := t.sub.Dropped()
	if dropped == t.dropped || err != nil {
		return false, err
	}
	t.dropped = dropped
	return true, nil
}
