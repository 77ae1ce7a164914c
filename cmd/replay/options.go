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
	List   listCommand   `cmd:"" help:"List the sessions, the most recently active first."`
	Show   showCommand   `cmd:"" help:"Show a session's transcript."`
	State  stateCommand  `cmd:"" help:"Print the state that a session's log comes to, as JSON."`
	Verify verifyCommand `cmd:"" help:"Prove that logs are complete, in order, valid and unchanged."`
	Export exportCommand `cmd:"" help:"Write logs as CloudEvents, one JSON object per line, or a session as a file."`
	Import importCommand `cmd:"" help:"Make sessions from pi's session files."`
	Tree   treeCommand   `cmd:"" help:"Show which sessions come from which, as trees."`
	Diff   diffCommand   `cmd:"" help:"Show where two sessions part, and what follows."`
	Rerun  rerunCommand  `cmd:"" help:"Go on from an event of a session as another session, with other settings."`
}

// program is replay's command line, to be read once.
func program() *cli.Program {
	return &cli.Program{
		Name: "replay", Version: "0.1.0", Grammar: new(grammar),
		About: "replay reads the logs of sessions and changes none; import and rerun make new ones.",
		Notes: "Exit status: 0 if all is well, 1 if not, 2 if the command line is wrong.",
	}
}

// where says where the logs are.
type where struct {
	Config     cli.Config     `embed:""`
	Connection cli.Connection `embed:"" group:"server"`
	Store      string         `group:"server" placeholder:"DIR" brief:"" help:"Read a store that no server has open."`
	Archive    string         `group:"server" placeholder:"FILE" brief:"" help:"Read a session that was archived."`
}

// Check lets a flag that says where the logs are win over the other one in the environment or a file.
func (w *where) Check(c *cli.Call) (errs []error) {
	connection := c.ByFlag("nats") || c.ByFlag("context")
	switch {
	case c.ByFlag("store") && !connection, c.Given("store") && c.Source("nats") == "NATS_URL":
		w.Connection.NATS, w.Connection.Context = "", ""
	case connection && !c.ByFlag("store"):
		w.Store = ""
	}
	if w.Archive != "" && (c.ByFlag("store") || connection) {
		errs = append(errs, errors.New("--archive excludes --nats and --store"))
	}
	if w.Connection.Given() && w.Store != "" {
		errs = append(errs, errors.New("--nats and --store exclude each other"))
	}
	return errs
}

// options are what a command line comes to.
type options struct {
	where

	json, all            bool
	events, full, follow bool
	lines                int
	at                   moment
	sessions             []string
}

// count wants a number of sessions, a negative max being any, and legal ids.
func count(c *cli.Call, sessions []string, args string, least, most int) (errs []error) {
	for _, session := range sessions {
		errs = append(errs, schemas.CheckSession(session))
	}
	if n := len(sessions); n < least || most >= 0 && n > most {
		errs = append(errs, fmt.Errorf("wrong number of arguments: replay %s", strings.TrimSpace(c.Command+" "+args)))
	}
	return errs
}

// checkAt reads --at.
func checkAt(text string, to *moment) (errs []error) {
	var err error
	if *to, err = parseMoment(text); err != nil {
		errs = append(errs, err)
	}
	return errs
}
