package dispatch

import (
	"time"

	"github.com/loopbus/loopbus/bus"
)

// NewPatient is [New] on a machine that may be busy with other things.
func NewPatient(c *bus.Conn) *Dispatcher { return &Dispatcher{c, time.Minute} }
