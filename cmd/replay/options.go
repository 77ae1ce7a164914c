package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// grammar is replay's command line.
type grammar struct {
	List   listCommand   `cmd:"" help:"List the sessions, most recently active first."`
	Show   showCommand   `cmd:"" help:"Show a session's transcript."`
	State  stateCommand  `cmd:"" help:"Print the state of a session, folded from its log, as JSON."`
	Verify verifyCommand `cmd:"" help:"Verify that logs are complete, in order, valid and unchanged."`
	Export exportCommand `cmd:"" help:"Print logs as CloudEvents, or a session as a pi, HTML or Markdown file."`
	Import importCommand `cmd:"" help:"Create sessions from pi's session files."`
	Tree   treeCommand   `cmd:"" help:"Show which session was branched from which, as trees."`
	Diff   diffCommand   `cmd:"" help:"Show where two sessions diverge, and what follows."`
	Rerun  rerunCommand  `cmd:"" help:"Run a session again from one of its events, as a new session."`
}

// program returns replay's command line, which can be parsed once.
func program() *cli.Program {
	return &cli.Program{
		Name: "replay", Version: "0.1.0", Grammar: new(grammar),
		About: "replay reads the logs of sessions without changing them; import and rerun create new sessions.",
		Notes: "Exit status: 0 on success, 1 on failure, 2 for a usage error.",
	}
}

// where selects where the logs are.
type where struct {
	Config     cli.Config     `embed:""`
	Connection cli.Connection `embed:"" group:"server"`
	Store      string         `group:"server" placeholder:"DIR" brief:"" help:"Read the store of a stopped runner."`
	Archive    string         `group:"server" placeholder:"FILE" brief:"" help:"Read an archived session."`
}

// Check lets a location given as a flag override one given in the environment or the file.
func (w *where) Check(c *cli.Call) (errs []error) {
	connection := c.ByFlag("nats") || c.ByFlag("context")
	switch {
	case c.ByFlag("store") && !connection, c.Given("store") && c.Source("nats") == "NATS_URL":
		w.Connection.NATS, w.Connection.Context = "", ""
	case connection && !c.ByFlag("store"):
		w.Store = ""
	}
	if w.Archive != "" && (c.ByFlag("store") || connection) {
		errs = append(errs, errors.New("--archive cannot be combined with --nats or --store"))
	}
	if w.Connection.Given() && w.Store != "" {
		errs = append(errs, errors.New("--nats and --store cannot be combined"))
	}
	return errs
}

// options are the settings of all commands.
type options struct {
	where

	json, all            bool
	events, full, follow bool
	lines                int
	at                   moment
	sessions             []string
}

// count validates session ids and their number; a negative most means any number.
func count(c *cli.Call, sessions []string, args string, least, most int) (errs []error) {
	for _, session := range sessions {
		errs = append(errs, schemas.CheckSession(session))
	}
	if n := len(sessions); n < least || most >= 0 && n > most {
		errs = append(errs, fmt.Errorf("wrong number of arguments: replay %s", strings.TrimSpace(c.Command+" "+args)))
	}
	return errs
}

// checkAt parses --at.
func checkAt(text string, to *moment) (errs []error) {
	var err error
	if *to, err = parseMoment(text); err != nil {
		errs = append(errs, err)
	}
	return errs
}
