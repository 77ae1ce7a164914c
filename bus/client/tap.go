package client

import (
	"context"
	"errors"

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

// subscribe subscribes to a subject; a goroutine of the connection calls each for every message. It returns once the
// server has confirmed or refused the subscription. If the connection is lost, the subscription is made again after
// reconnecting.
func (c *Client) subscribe(ctx context.Context, subject string, each nats.MsgHandler) (*nats.Subscription, error) {
	before := c.nc.LastError()
	sub, err := c.nc.Subscribe(subject, each)
	if err != nil {
		return nil, err
	}
	if err = sub.SetPendingLimits(c.pendingLimit, liveBytes); err == nil {
		err = c.retry(ctx, c.flush)
	}
	if err == nil && !errors.Is(c.nc.LastError(), before) {
		err = c.explain(nil, subject)
	}
	if err != nil {
		_ = sub.Unsubscribe()
		return nil, err
	}
	return sub, nil
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
