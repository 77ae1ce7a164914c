package streams

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
)

const keepAgain = 10 * time.Second // between two attempts to create a stream that the server refuses

// Keep creates the stream of updates again whenever its server was restarted, until ctx ends: without replicas that
// stream is in memory, and is gone with its server.
func Keep(ctx context.Context, c *bus.Conn, o Options, log *slog.Logger) {
	status := c.NATS().StatusChanged(nats.CONNECTED)
	defer c.NATS().RemoveStatusListener(status)
	o.maxMessage = int32(max(minMaxMessage, c.NATS().MaxPayload()))
	updates := updateSpec(c.Subjects().Prefix(), o.base())
	for ctx.Err() == nil {
		var again <-chan time.Time
		if err := updates.keep(ctx, c); err != nil {
			again = time.After(keepAgain)
			if c.Connected() && ctx.Err() == nil {
				log.Warn("the stream of updates is missing: no deltas for late viewers", "err", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-status:
		case <-again:
		}
	}
}

func (s spec) keep(ctx context.Context, c *bus.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	return s.apply(ctx, c.JetStream())
}
