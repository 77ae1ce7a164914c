package client

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// subscribe has each called for every message by one goroutine of the connection's, and returns once the server knows
// of it or has refused it. A connection that is away subscribes when it is back.
func (c *Client) subscribe(ctx context.Context, subject string, each nats.MsgHandler) (*nats.Subscription, error) {
	before := c.nc.LastError()
	sub, err := c.nc.Subscribe(subject, each)
	if err != nil {
		return nil, err
	}
	if err = sub.SetPendingLimits(c.kept, liveBytes); err == nil {
		err = c.persist(ctx, c.flush)
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

// flush waits until the server has had what was sent. Of a connection that is lost meanwhile nats.go says that it is
// closed, although it will be back, and what was subscribed with it.
func (c *Client) flush(ctx context.Context) error {
	err := c.nc.FlushWithContext(ctx)
	if errors.Is(err, nats.ErrConnectionClosed) && !c.nc.IsClosed() {
		return nats.ErrDisconnected
	}
	return err
}
