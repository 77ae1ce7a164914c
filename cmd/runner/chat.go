package main

import (
	"context"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/runner/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// chatCommand is `runner chat`: a client of the runners at --nats, or a runner with an embedded server.
type chatCommand struct {
	Session string  `group:"sessions" brief:"" help:"Chat in this session (default a new one)."`
	Options options `embed:""`

	call *cli.Call
}

// Check validates the session id, and refuses settings that the runners decide.
func (c *chatCommand) Check(call *cli.Call) []error {
	c.call = call
	if c.Session == "" {
		c.Session = randomID("s-")
	}
	errs := checkOnce(call, &c.Options)
	if err := schemas.CheckSession(c.Session); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// Run chats until the user leaves.
func (c *chatCommand) Run(ctx context.Context, io *cli.IO) error {
	return interrupted(ctx, c.run(ctx, io), func() string {
		return c.Options.afterwards("what session " + c.Session + " has received")
	})
}

func (c *chatCommand) run(ctx context.Context, io *cli.IO) error {
	o := &c.Options
	if o.Server.embedded() {
		return withRunner(ctx, c.call, o, func(ctx context.Context, cl *client.Client) error {
			return c.converse(ctx, cl, io)
		})
	}
	cl, err := o.Server.Client(ctx, "loopbus runner chat", o.Observe.Logger(io))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := setSession(ctx, cl.Session(c.Session), c.call, o); err != nil {
		return err
	}
	return c.converse(ctx, cl, io)
}

func (c *chatCommand) converse(ctx context.Context, cl *client.Client, io *cli.IO) error {
	return chat.Run(ctx, cl.Session(c.Session), io, chat.Options{
		Colour: cli.WantsColour(io.Stdout, io.Getenv), Model: c.Options.Models.find,
	})
}
