// Command runner drives AI agent sessions on NATS JetStream: it receives the commands of its share of the sessions,
// calls models, dispatches tool calls, and appends every event to the sessions' logs. "runner run" does this for one
// prompt and exits; with --nats it sends the prompt to the runners there. Other commands list what a deployment has.
// "runner help" describes all of them.
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

// Names of commands that the validation of settings depends on.
const (
	commandDefault = "default" // no command: serve or, with --prompt, run
	commandRun     = "run"
	commandChat    = "chat"
)

// grammar is the runner's command line.
type grammar struct {
	Default  defaultCommand   `cmd:"" hidden:""`
	Serve    serveCommand     `cmd:"" help:"Drive sessions until SIGTERM; the default command."`
	Run      runCommand       `cmd:"" help:"Send one prompt, print its run, and exit with 0 if it ends normally."`
	Chat     chatCommand      `cmd:"" help:"Chat with a session in the terminal."`
	List     listing.List     `cmd:"" help:"List the runners and compare their settings."`
	Models   modelsCommand    `cmd:"" help:"List the models of the catalogue."`
	Tools    listing.Tools    `cmd:"" help:"List the tools that workers announce."`
	Profiles listing.Profiles `cmd:"" help:"List the profiles: named agents that sessions may follow."`

	Permissions permissionsCommand `cmd:"" help:"Print the NATS configuration of a user with these roles."`

	SessionsList    sessions.List    `cmd:"" name:"sessions list" help:"List the sessions, most recently active first."`
	SessionsDelete  sessions.Delete  `cmd:"" name:"sessions delete" help:"Delete sessions with all their data."`
	SessionsExport  sessions.Export  `cmd:"" name:"sessions export" help:"Print logs as CloudEvents, one JSON per line."`
	SessionsArchive sessions.Archive `cmd:"" name:"sessions archive" help:"Write a session to an archive file."`
	SessionsRestore sessions.Restore `cmd:"" name:"sessions restore" help:"Restore sessions from archive files."`
}

// program returns the runner's command line, which can be parsed once.
func program() (*cli.Program, *grammar) {
	g := new(grammar)
	return &cli.Program{
		Name: "runner", Version: version, Grammar: g, Default: commandDefault,
		About: "runner drives AI agent sessions on NATS: until SIGTERM or, with a prompt, for one run.",
		Notes: "Exit status: 0 on success, 1 on failure, 2 for a usage error, 3 if a call waits for an approval\n" +
			"that nobody can give, 130 after an interrupt.",
		Vars: kong.Vars{
			"takeover":    inbox.DefaultTakeover.String(),
			"maxSessions": strconv.Itoa(inbox.DefaultMaxSessions), "ackWait": worker.DefaultAckWait.String(),
			"window": itoa(host.DefaultCallWindow), "tools": strings.Join(toolserve.Names(), ","),
			"httpDefault": " (default 127.0.0.1:8080, off for one run)", "levelDefault": " (default info, warn for one run)",
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

// run runs the program without a process of its own, for tests.
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
