package client

import (
	"context"

	"github.com/nats-io/nats.go"
)

const (
	// Limits of live messages that wait for a slow reader. The connection drops more; they are read from the log.
	liveMessages = 4096
	liveBytes    = 16 << 20
)

// tap is a subscription to a part of the live feed. It is used by one goroutine, besides the connection's own that
// delivers the messages.
type tap struct {
	nc      *nats.Conn
	live    chan *nats.Msg   // unbuffered: the connection queues messages
	status  chan nats.Status // connected again, or closed
	sub     *nats.Subscription
	dropped int
	ended   chan struct{}
}

// tap subscribes to a subject of the live feed. The caller must close the tap.
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

// missed reports whether the connection has dropped live messages since the last call. It is false while messages
// that were queued before are still to be delivered.
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
