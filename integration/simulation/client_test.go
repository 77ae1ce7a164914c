package simulation_test

import (
	"context"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/schemas"
)

// client sends the commands of one session, one after the other.
type client struct {
	*process
	session string
	sent    []schemas.Command
	inputs  []string // ids of prompts, steers and follow-ups
}

// program sends commands for a while.
func (c *client) program(steps int) {
	for range steps {
		r := c.draw("client " + c.session)
		time.Sleep(r.about(1500 * time.Millisecond))
		if len(c.sent) > 0 && r.percent(8) {
			c.publish(c.sent[r.IntN(len(c.sent))], "")
			continue
		}
		cmd := schemas.Command{ID: fmt.Sprintf("%s-%d", c.session, len(c.sent)), Session: c.session}
		cmd.Data = choose(r, kinds)(c, r, cmd.ID)
		refusal := ""
		if r.percent(3) {
			refusal = "it is no command"
		}
		c.sent = append(c.sent, cmd)
		c.publish(cmd, refusal)
	}
}

// prompt sends a new prompt.
func (c *client) prompt() {
	cmd := schemas.Command{ID: c.session + "-last", Session: c.session}
	cmd.Data = &schemas.Prompt{Input: c.input(cmd.ID)}
	c.publish(cmd, "")
}

func (c *client) input(id string) schemas.Input {
	c.inputs = append(c.inputs, id)
	return schemas.Input{Text: "say " + id}
}

var whenBusy = []weighted[schemas.WhenBusy]{
	{40, schemas.BusyQueue}, {15, schemas.BusySteer}, {15, schemas.BusyFollowUp}, {15, schemas.BusyInterrupt},
	{10, schemas.BusyReject},
}

// kinds are the commands that a client sends.
var kinds = []weighted[func(c *client, r draw, id string) schemas.CommandData]{
	{40, func(c *client, r draw, id string) schemas.CommandData {
		return &schemas.Prompt{Input: c.input(id), WhenBusy: choose(r, whenBusy)}
	}},
	{16, func(c *client, _ draw, id string) schemas.CommandData { return &schemas.Steer{Input: c.input(id)} }},
	{12, func(c *client, _ draw, id string) schemas.CommandData { return &schemas.FollowUp{Input: c.input(id)} }},
	{10, func(_ *client, r draw, _ string) schemas.CommandData {
		return &schemas.Abort{ClearQueue: r.percent(30)}
	}},
	{4, func(*client, draw, string) schemas.CommandData { return &schemas.Continue{} }},
	{4, func(_ *client, r draw, _ string) schemas.CommandData {
		return &schemas.ClearQueue{Queue: []string{"", "steering", "follow_up", "prompts"}[r.IntN(4)]}
	}},
	{7, func(c *client, r draw, _ string) schemas.CommandData {
		if len(c.inputs) == 0 || r.percent(5) {
			return &schemas.CancelInput{InputID: "nothing"}
		}
		return &schemas.CancelInput{InputID: c.inputs[len(c.inputs)-1-r.IntN(min(3, len(c.inputs)))]}
	}},
	{4, func(_ *client, r draw, _ string) schemas.CommandData {
		return &schemas.SetModes{SteeringMode: []schemas.QueueMode{schemas.QueueAll, schemas.QueueOneAtATime}[r.IntN(2)]}
	}},
	{2, func(_ *client, r draw, _ string) schemas.CommandData {
		return &schemas.SetModel{Model: schemas.ModelRef{ID: []string{"other", "unknown"}[r.IntN(2)]}}
	}},
	{1, func(*client, draw, string) schemas.CommandData {
		return &schemas.SetTools{Tools: []string{"look", "pay"}}
	}},
}

// publish sends a command until it is acknowledged or the client gives up.
func (c *client) publish(cmd schemas.Command, refusal string) {
	begun := time.Now()
	var acked time.Time
	copies := 0
	for copies < 3 && acked.IsZero() {
		copies++
		err := c.request(context.Background(), "publish "+c.session, func() error {
			c.queue.put(cmd, refusal)
			return nil
		})
		if err == nil {
			acked = time.Now()
		}
	}
	c.record(history.Command{
		Session: c.session, ID: cmd.ID, Kind: cmd.Data.CommandKind(), Text: textOf(cmd), Acked: acked, Sent: begun,
		Copies: copies,
	})
}

func textOf(cmd schemas.Command) string {
	switch d := cmd.Data.(type) {
	case *schemas.Prompt:
		return d.Text
	case *schemas.Steer:
		return d.Text
	case *schemas.FollowUp:
		return d.Text
	}
	return ""
}

// record adds a command that a client has sent. For a repeated command it keeps the time of the first send.
func (w *world) record(cmd history.Command) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.commands {
		if old := &w.commands[i]; old.ID == cmd.ID {
			old.Copies += cmd.Copies
			if old.Acked.IsZero() {
				old.Acked = cmd.Acked
			}
			return
		}
	}
	w.commands = append(w.commands, cmd)
}
