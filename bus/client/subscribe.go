package client

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

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
