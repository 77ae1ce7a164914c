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
	All   bool     `brief:"" help:"List every session and not only the latest 50."`
	Extra []string `arg:"" optional:"" hidden:""`
}

// Check wants no arguments.
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
	Events   bool     `brief:"" help:"Show the service's events too, a line each."`
	Full     bool     `brief:"" help:"Show everything of results and arguments."`
	Lines    int      `default:"20" brief:"" help:"Show so many lines of a tool's result; 0 for all."`
	Follow   bool     `brief:"" help:"Go on live until interrupted."`
	Sessions []string `arg:"" optional:"" placeholder:"SESSION"`

	at moment
}

// Check wants one session.
func (c *showCommand) Check(call *cli.Call) []error {
	errs := append(checkAt(c.At, &c.at), count(call, c.Sessions, "SESSION", 1, 1)...)
	if c.Follow && c.Where.Store != "" {
		errs = append(errs, errors.New("--follow needs a running server: nobody can write to a store that replay has open"))
	}
	if c.Follow && c.At != "" {
		errs = append(errs, errors.New("--follow and --at exclude each other"))
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

// Check wants one session.
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

// Check wants legal ids.
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
	All      bool     `brief:"" help:"Export every session, one after the other."`
	Format   string   `enum:"events,pi,html,md" default:"events" brief:"" help:"Write events, or pi, html or md."`
	CWD      string   `name:"cwd" placeholder:"DIR" help:"Name the directory that the work is about, for pi; else /."`
	Sessions []string `arg:"" optional:"" placeholder:"SESSION|--all"`
}

// Check wants one session or all.
func (c *exportCommand) Check(call *cli.Call) []error {
	errs := count(call, c.Sessions, "SESSION|--all", 0, 1)
	switch {
	case (len(c.Sessions) == 1) == c.All:
		errs = append(errs, errors.New("export takes either a session or --all"))
	case c.All && c.Format != formatEvents:
		errs = append(errs, errors.New("--all writes events: another --format is a file for one session"))
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
	Session string   `brief:"" placeholder:"SESSION" help:"Name the session; without it, it has the file's id."`
	Files   []string `arg:"" optional:"" placeholder:"FILE ..."`
}

// Check wants files.
func (c *importCommand) Check(*cli.Call) (errs []error) {
	if len(c.Files) == 0 {
		errs = append(errs, errors.New("wrong number of arguments: replay import takes one FILE or more"))
	}
	if c.Session != "" {
		if len(c.Files) > 1 {
			errs = append(errs, errors.New("--session names the session of one file"))
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
