// Command runner drives agents: it reads the commands of its share of the sessions, calls models, dispatches tool calls
// and writes every event to the sessions' logs. As "runner run" it does all of that for one prompt and exits, or, with
// --nats, has the runners there do it. Other commands list what there is. "runner help" has them all.
package main

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/signals"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/cmd/runner/internal/listing"
	"github.com/loopbus/loopbus/cmd/runner/internal/sessions"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/worker"
)

// Names of commands that settings look at.
const (
	commandDefault = "default" // without a command: serve, or run with a prompt
	commandRun     = "run"
	commandChat    = "chat"
)

// grammar is the runner's command line.
type grammar struct {
	Default  defaultCommand   `cmd:"" hidden:""`
	Serve    serveCommand     `cmd:"" help:"Drive sessions until SIGTERM. This is done without a command, too."`
	Run      runCommand       `cmd:"" help:"Send one prompt, show its run, and exit with 0 if it ends normally."`
	Chat     chatCommand      `cmd:"" help:"Converse with a session in the terminal."`
	List     listing.List     `cmd:"" help:"List the runners, and whether their settings are the same."`
	Models   modelsCommand    `cmd:"" help:"List the models of the catalogue."`
	Tools    listing.Tools    `cmd:"" help:"List the tools that workers announce."`
	Profiles listing.Profiles `cmd:"" help:"List the named agents that sessions may follow."`

	Permissions permissionsCommand `cmd:"" help:"Write the NATS configuration of a user with roles."`

	SessionsList    sessions.List    `cmd:"" name:"sessions list" help:"List the sessions, the latest activity first."`
	SessionsDelete  sessions.Delete  `cmd:"" name:"sessions delete" help:"Delete sessions and all there is of them."`
	SessionsExport  sessions.Export  `cmd:"" name:"sessions export" help:"Write logs as CloudEvents, one a line."`
	SessionsArchive sessions.Archive `cmd:"" name:"sessions archive" help:"Write a session to a file to restore it from."`
	SessionsRestore sessions.Restore `cmd:"" name:"sessions restore" help:"Bring sessions back from their files."`
}

// program is the runner's command line, to be read once.
func program() (*cli.Program, *grammar) {
	g := new(grammar)
	return &cli.Program{
		Name: "runner", Version: version, Grammar: g, Default: commandDefault,
		About: "runner drives agents on a message bus: with --prompt one run and out, without it until SIGTERM.",
		Notes: "Exit status: 0 if all is well, 1 if not, 2 if the command line is wrong, 3 if a call waits for an\n" +
			"approval that nobody can give, 130 after an interrupt.",
		Vars: kong.Vars{
			"takeover":    inbox.DefaultTakeover.String(),
			"maxSessions": strconv.Itoa(inbox.DefaultMaxSessions), "ackWait": worker.DefaultAckWait.String(),
			"window": itoa(host.DefaultCallWindow), "tools": strings.Join(toolserve.Names(), ","),
			"httpDefault": " (default 127.0.0.1:8080; with a prompt off)", "levelDefault": " (default info; with a prompt warn)",
			"bridges":    strings.Join(bridgeNames(), ", "),
			"extensions": strings.Join(schemas.DefaultExtensionTools(), ","),
		},
	}, g
}

func main() {
	bash.RunHelper()
	io := &cli.IO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ()}
	p, _ := program()
	os.Exit(cli.Exit(p.Name, p.Run(signals.Context(), os.Args[1:], io), os.Stderr))
}

// run is the program but for its process.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	p, _ := program()
	return p.Run(ctx, args, &cli.IO{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Getenv: getenv})
}

// serveCommand is `runner serve`.
type serveCommand struct {
	Options options `embed:""`
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, io *cli.IO) error {
	return serve(ctx, &c.Options, io)
}
