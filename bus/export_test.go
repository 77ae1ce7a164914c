package bus

import "time"

// NewPatientDispatcher is [NewDispatcher] on a machine that may be busy with other things.
func NewPatientDispatcher(c *Conn) *Dispatcher { return &Dispatcher{c, time.Minute} }
