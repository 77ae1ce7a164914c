package dispatch

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// NewPatient is [New] on a machine that may be busy with other things.
func NewPatient(c *bus.Conn) *Dispatcher { return &Dispatcher{c, time.Minute} }

// NewHasty is [New] with little patience.
func NewHasty(c *bus.Conn) *Dispatcher { return &Dispatcher{c, 3 * time.Second} }

// CheckAbsent checks the queues once, of which these had no worker for long enough.
func (u *Unserved) CheckAbsent(ctx context.Context, tools ...string) error {
	for _, tool := range tools {
		u.absent[schemas.ToolQueue{Tool: tool}] = time.Now().Add(-u.o.After)
	}
	return u.check(ctx)
}

// Updates returns the statistics of the connection for partial results.
func Updates(c *Caller) nats.Statistics { return c.updates.nc.Stats() }
