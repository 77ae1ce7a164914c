package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// listCommand is `replay list`.
type listCommand struct {
	Where where    `embed:""`
	JSON  bool     `name:"json" brief:"" help:"Print one JSON object per line."`
	All   bool     `brief:"" help:"List all sessions instead of the latest 50."`
	Extra []string `arg:"" optional:"" hidden:""`
}

// Check accepts no arguments.
func (c *listCommand) Check(call *cli.Call) []error { return count(call, c.Extra, "", 0, 0) }

// Run lists sessions.
func (c *listCommand) Run(ctx context.Context, io *cli.IO) error {
	return invoked(ctx, io, c.options(), runList)
}

func (c *listCommand) options() options { return options{where: c.Where, json: c.JSON, all: c.All} }

// showCommand is `replay show`.
type showCommand struct {
	Where    where    `embed:""`
	JSON     bool     `name:"json" brief:"" help:"Print the events, one JSON object per line."`
	At       string   `brief:"" placeholder:"WHEN" help:"Stop at an event's sequence, or at a time in RFC 3339."`
	Events   bool     `brief:"" help:"Show all other events too, one line each."`
	Full     bool     `brief:"" help:"Show results and arguments in full."`
	Lines    int      `default:"20" brief:"" help:"Limit the lines shown of a tool's result; 0 shows all."`
	Follow   bool     `brief:"" help:"Follow the session live until interrupted."`
	Sessions []string `arg:"" optional:"" placeholder:"SESSION"`

	at moment
}

// Check requires one session.
func (c *showCommand) Check(call *cli.Call) []error {
	errs := append(checkAt(c.At, &c.at), count(call, c.Sessions, "SESSION", 1, 1)...)
	if c.Follow && c.Where.Store != "" {
		errs = append(errs, errors.New(
			"--follow needs a running server (--nats): nothing writes to a store that replay reads"))
	}
	if c.Follow && c.At != "" {
		errs = append(errs, errors.New("--follow and --at cannot be combined"))
	}
	return errs
}

// Run shows a session.
func (c *showCommand) Run(ctx context.Context, io *cli.IO) error {
	return invoked(ctx, io, c.options(), runShow)
}

func (c *showCommand) options() options {
	return options{where: c.Where, json: c.JSON, events: c.Events, full: c.Full, follow: c.Follow, lines: c.Lines,
		at: c.at, sessions: c.Sessions}
}

// stateCommand is `replay state`.
type stateCommand struct {
	Where    where    `embed:""`
	At       string   `brief:"" placeholder:"WHEN" help:"Stop at an event's sequence, or at a time in RFC 3339."`
	Sessions []string `arg:"" optional:"" placeholder:"SESSION"`

	at moment
}

// Check requires one session.
func (c *stateCommand) Check(call *cli.Call) []error {
	return append(checkAt(c.At, &c.at), count(call, c.Sessions, "SESSION", 1, 1)...)
}

// Run prints a state.
func (c *stateCommand) Run(ctx context.Context, io *cli.IO) error {
	return invoked(ctx, io, c.options(), runState)
}

func (c *stateCommand) options() options {
	return options{where: c.Where, at: c.at, sessions: c.Sessions}
}

// verifyCommand is `replay verify`.
type verifyCommand struct {
	Where    where    `embed:""`
	JSON     bool     `name:"json" brief:"" help:"Print one JSON object per line."`
	Sessions []string `arg:"" optional:"" placeholder:"[SESSION ...]"`
}

// Check validates session ids.
func (c *verifyCommand) Check(call *cli.Call) []error {
	return count(call, c.Sessions, "[SESSION ...]", 0, -1)
}

// Run verifies sessions.
func (c *verifyCommand) Run(ctx context.Context, io *cli.IO) error {
	return invoked(ctx, io, c.options(), runVerify)
}

func (c *verifyCommand) options() options {
	return options{where: c.Where, json: c.JSON, sessions: c.Sessions}
}

// exportCommand is `replay export`.
type exportCommand struct {
	Where    where    `embed:""`
	All      bool     `brief:"" help:"Export all sessions, one after another."`
	Format   string   `enum:"events,pi,html,md" default:"events" brief:"" help:"Set the format: events, pi, html or md."`
	CWD      string   `name:"cwd" placeholder:"DIR" help:"Set the working directory recorded in a pi file (default /)."`
	Sessions []string `arg:"" optional:"" placeholder:"SESSION|--all"`
}

// Check requires one session or --all.
func (c *exportCommand) Check(call *cli.Call) []error {
	errs := count(call, c.Sessions, "SESSION|--all", 0, 1)
	switch {
	case (len(c.Sessions) == 1) == c.All:
		errs = append(errs, errors.New("export takes either a session or --all"))
	case c.All && c.Format != formatEvents:
		errs = append(errs, errors.New("--all exports events only: other values of --format are for one session"))
	}
	return errs
}

// Run exports sessions.
func (c *exportCommand) Run(ctx context.Context, io *cli.IO) error {
	return invoked(ctx, io, c.options(), func(ctx context.Context, a *app) error {
		if c.Format == formatEvents {
			return runExport(ctx, a)
		}
		return a.exportAs(ctx, c.Format, c.Sessions[0], cmp.Or(c.CWD, "/"))
	})
}

func (c *exportCommand) options() options {
	return options{where: c.Where, all: c.All, sessions: c.Sessions}
}

// importCommand is `replay import`.
type importCommand struct {
	Where   where    `embed:""`
	Session string   `brief:"" placeholder:"SESSION" help:"Set the id of the session (default the file's id)."`
	Files   []string `arg:"" optional:"" placeholder:"FILE ..."`
}

// Check requires files.
func (c *importCommand) Check(*cli.Call) (errs []error) {
	if len(c.Files) == 0 {
		errs = append(errs, errors.New("wrong number of arguments: replay import takes one FILE or more"))
	}
	if c.Session != "" {
		if len(c.Files) > 1 {
			errs = append(errs, errors.New("--session can be used with one file only"))
		}
		errs = append(errs, schemas.CheckSession(c.Session))
	}
	return errs
}

// Run imports files.
func (c *importCommand) Run(ctx context.Context, io *cli.IO) error {
	return invoked(ctx, io, options{where: c.Where}, func(ctx context.Context, a *app) error {
		return a.importFiles(ctx, c.Session, c.Files)
	})
}
