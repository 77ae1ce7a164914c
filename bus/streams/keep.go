package streams

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
)

// Keep creates the stream of updates again whenever its server was restarted, until ctx ends: without replicas that
// stream is in memory, and is gone with its server. It returns when ctx ends.
func Keep(ctx context.Context, c *bus.Conn, o Options, log *slog.Logger) {
	status := c.NATS().StatusChanged(nats.CONNECTED)
	defer c.NATS().RemoveStatusListener(status)
	o.maxMessage = int32(max(minMaxMessage, c.NATS().MaxPayload()))
	updates := updateSpec(c.Subjects().Prefix(), o.base())
	for {
		select {
		case <-ctx.Done():
			return
		case <-status:
		}
		for failed := false; ; failed = true {
			once, cancel := context.WithTimeout(ctx, setupTimeout)
			err := updates.apply(once, c.JetStream())
			cancel()
			if err == nil || ctx.Err() != nil {
				break
			}
			if !failed {
				log.Warn("the stream of updates is missing: no deltas for late viewers", "err", err)
			}
			if !natsio.Wait(ctx, natsio.RetryWait) {
				return
			}
		}
	}
}
