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
func Updates(c *Caller) nats.Statistics { return c.updates.Opened().Stats() }

// AnswersWait makes the connections for answers close this long after the last call.
func AnswersWait(c *Caller, d time.Duration) { c.answers.idle = d }

// Answers returns the connections for answers by tool.
func Answers(c *Caller) map[string]*nats.Conn {
	c.answers.mu.Lock()
	defer c.answers.mu.Unlock()
	open := map[string]*nats.Conn{}
	for queue, l := range c.answers.lines {
		if nc := l.Opened(); nc != nil {
			open[queue.Name()] = nc
		}
	}
	return open
}

// HoldAnswers keeps the answers of a tool that has calls from being decoded until release.
func HoldAnswers(c *Caller, tool string) (release func()) {
	c.answers.mu.Lock()
	defer c.answers.mu.Unlock()
	l := c.answers.lines[schemas.ToolQueue{Tool: tool}]
	l.decoding.Lock()
	return l.decoding.Unlock
}
