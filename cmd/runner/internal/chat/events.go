package chat

import (
	"context"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/waiting"
	"github.com/loopbus/loopbus/cmd/runner/internal/view"
	"github.com/loopbus/loopbus/schemas"
)

// watch prints the session's history and then what happens.
func (c *chat) watch(ctx context.Context) error {
	defer waiting.Every(func(now time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.show.Look(now)
	})()
	for item, err := range c.session.Watch(ctx, 1) {
		if err != nil {
			return err
		}
		if err := c.item(item); err != nil {
			return err
		}
	}
	return nil
}

func (c *chat) item(i client.Item) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.Update != nil {
		return c.show.Update(*i.Update)
	}
	switch d := i.Event.Data.(type) {
	case *schemas.AgentStart:
		c.begin()
	case *schemas.AgentEnd:
		c.running = false
		c.waiting.Clear()
		c.rest()
	case *schemas.CommandApplied: // its run has started, or a service has handled it
		c.settle(d.CommandID)
	case *schemas.CommandRejected:
		c.settle(d.CommandID)
	case *schemas.CommandSuperseded:
		c.settle(d.CommandID)
	case *schemas.CommandWithdrawn:
		c.settle(d.CommandID)
	case *schemas.ToolExecutionEnd:
		c.keep(d.Call, d.Result.Content.JoinText())
	}
	if err := c.show.Event(*i.Event); err != nil {
		return err
	}
	switch d := i.Event.Data.(type) {
	case *schemas.CommandAccepted:
		if d.Kind == schemas.CommandSteer || d.Kind == schemas.CommandFollowUp {
			c.show.Say("queued: " + string(d.Kind))
		}
	case *schemas.ApprovalRequested:
		c.show.Say(cli.OneLine(fmt.Sprintf("call %s waits for approval: %s %s; %s", d.Call, d.ToolName,
			view.Whole(d.Args), c.waiting.Add(*d, "/y", "/n"))))
	case *schemas.ApprovalResolved:
		c.waiting.Remove(d.Call)
	}
	return nil
}

func (c *chat) begin() {
	c.running = true
	select {
	case <-c.idle:
		c.idle = make(chan struct{})
	default:
	}
}

// settle records that a prompt will start no run any more.
func (c *chat) settle(id string) {
	delete(c.expected, id)
	c.rest()
}

// rest closes idle if no run is in progress or expected.
func (c *chat) rest() {
	if c.running || len(c.expected) > 0 {
		return
	}
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

func (c *chat) keep(call schemas.CallKey, text string) {
	c.results[call] = text
	if c.order = append(c.order, call); len(c.order) > maxResults {
		delete(c.results, c.order[0])
		c.order = c.order[1:]
	}
}
