//go:build unix

package chaos_test

import (
	"context"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/integration/chaos/internal/program"
	"github.com/loopbus/loopbus/integration/chaos/internal/proxy"
	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/schemas"
)

// client sends commands through its own proxies and records each of them with its acknowledgement.
type client struct {
	conn  *bus.Conn
	links []*proxy.Proxy

	mu       sync.Mutex
	commands []*history.Command
	byID     map[string]*history.Command
}

const (
	ackTimeout = 3 * time.Second // after which a client sends the command again, with the same id
	retryPause = 200 * time.Millisecond
)

func (w *world) newClient() *client {
	w.t.Helper()
	c := &client{links: w.links(), byID: map[string]*history.Command{}}
	ctx, cancel := context.WithTimeout(testContext(w.t), deadline)
	defer cancel()
	var err error
	c.conn, err = bus.Connect(ctx, bus.ConnOptions{URL: urlOf(c.links), Name: "client"})
	w.must(err)
	return c
}

func (c *client) close() {
	c.conn.Close()
	for _, l := range c.links {
		l.Close()
	}
}

// play sends the steps of a program one after the other. Once over is done it starts no further step. It retries a step
// until ctx ends.
func (c *client) play(ctx, over context.Context, session string, steps []program.Step) error {
	for _, step := range steps {
		pause := time.NewTimer(step.Pause)
		select {
		case <-pause.C:
		case <-over.Done():
			pause.Stop()
			return nil
		}
		if err := c.send(ctx, session, step); err != nil {
			return err
		}
	}
	return nil
}

// send sends a command until it is acknowledged.
func (c *client) send(ctx context.Context, session string, step program.Step) error {
	payload, err := encode(step)
	if err != nil {
		return err
	}
	subject := c.conn.Subjects().Command(session, step.Data.CommandKind())
	cmd := c.command(session, step)
	if step.Loose {
		c.note(cmd, false)
		return c.conn.NATS().Publish(subject, payload)
	}
	for {
		c.note(cmd, false)
		once, cancel := context.WithTimeout(ctx, ackTimeout)
		_, err := c.conn.JetStream().Publish(once, subject, payload)
		cancel()
		if err == nil {
			c.note(cmd, true)
			return nil
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return err
		}
	}
}

// encode writes a command with its id.
func encode(step program.Step) ([]byte, error) {
	raw, err := schemas.Marshal(step.Data)
	if err != nil {
		return nil, err
	}
	payload := []byte(`{"id":"` + step.ID + `"`)
	if string(raw) != "{}" {
		payload = append(payload, ',')
	}
	return append(payload, raw[1:]...), nil
}

// command returns the record of a command, a new one unless it is repeated.
func (c *client) command(session string, step program.Step) *history.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd := c.byID[step.ID]
	if cmd == nil {
		cmd = &history.Command{Session: session, ID: step.ID, Kind: step.Data.CommandKind(), Text: textOf(step.Data),
			Sent: time.Now()}
		c.commands = append(c.commands, cmd)
		c.byID[step.ID] = cmd
	}
	return cmd
}

func textOf(data schemas.CommandData) string {
	switch d := data.(type) {
	case *schemas.Prompt:
		return d.Text
	case *schemas.Steer:
		return d.Text
	case *schemas.FollowUp:
		return d.Text
	}
	return ""
}

func (c *client) note(cmd *history.Command, acked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !acked {
		cmd.Copies++
	} else if cmd.Acked.IsZero() {
		cmd.Acked = time.Now()
	}
}

// seen returns the commands that the client sent; those of a session are in the order of their first sends.
func (c *client) seen() []history.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]history.Command, len(c.commands))
	for i, cmd := range c.commands {
		all[i] = *cmd
	}
	return all
}
