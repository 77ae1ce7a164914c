package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/bus/headerlimit"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// clearTime bounds a search for messages that are not delivered.
const clearTime = 20 * time.Second

// Clear begins to move messages that ask servers for a trace to the dead letters. A server that gets one over a route
// drops it (docs/security.md#clusters): it would stay for ever, and each consumer would miss a delivery.
func (q queue) Clear() {
	if !q.replicated.Load() || !q.clearing.CompareAndSwap(false, true) {
		return
	}
	q.work.Go(func() {
		defer q.clearing.Store(false)
		ctx, cancel := context.WithTimeout(q.life, clearTime)
		defer cancel()
		if err := q.clear(ctx); err != nil && q.life.Err() == nil {
			q.o.Logger.Debug("messages that ask for a trace not all removed, continuing later", "err", err)
		}
	})
}

// clear reads all messages as JSON from the leader, which no server traces.
func (in *Inbox) clear(ctx context.Context) error {
	for from := uint64(1); ; {
		m, found, err := natsio.Next(ctx, in.conn.JetStream(), schemas.StreamCommands, ">", from)
		if err != nil || !found {
			return err
		}
		if asksForTrace(m) {
			if err := in.takeOut(ctx, m, "it asks servers for a trace"); err != nil {
				return fmt.Errorf("sequence %d: %w", m.Sequence, err)
			}
		}
		from = m.Sequence + 1
	}
}

// asksForTrace reports whether a server may trace a message. What a client asks its own server is crossed out in the
// stored message. Of headers that were left out nobody knows; such a message is rejected anyway.
func asksForTrace(m natsio.Stored) bool {
	const dest, crossedOut = "Nats-Trace-Dest", "trace disabled"
	to := m.Header[dest]
	return m.Unreadable || headerlimit.LeftOut(m.Header) || len(to) > 0 && to[0] != crossedOut
}
