// Command toolworker announces tools on a message bus and executes the calls that agents make of them: built-in tools
// and those of MCP servers. It can also be an MCP server, which offers the announced tools to MCP clients.
package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/observe"
	"github.com/loopbus/loopbus/cmd/internal/signals"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/worker"
)

// connectTimeout limits connecting and setting up the streams.
const connectTimeout = 10 * time.Second

// grammar is the toolworker's command line.
type grammar struct {
	Serve serveCommand `cmd:"" help:"Execute tool calls until SIGTERM; the default command."`
}

// serveCommand is `toolworker serve`.
type serveCommand struct {
	Options options `embed:""`
}

// program returns the toolworker's command line, which can be parsed once.
func program() (*cli.Program, *options) {
	g := new(grammar)
	return &cli.Program{
		Name: "toolworker", Version: version(), Grammar: g, Default: "serve",
		About: "toolworker executes the tool calls of AI agent sessions on NATS.",
		Vars: kong.Vars{"tools": strings.Join(toolserve.Names(), ","), "ackWait": worker.DefaultAckWait.String(),
			"readTimeout": tools.DefaultReadTimeout.String(), "outputAge": bash.DefaultSpillAge.String(),
			"httpDefault": " (default off)", "levelDefault": " (default info)"},
	}, &g.Serve.Options
}

func main() {
	bash.RunHelper()
	p, _ := program()
	os.Exit(cli.Exit(p.Name, p.Run(signals.Context(), os.Args[1:], &cli.IO{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ(),
	}), os.Stderr))
}

// Run serves until ctx ends, then drains. With --mcp, stdin and stdout carry the Model Context Protocol and nothing
// else.
func (c *serveCommand) Run(ctx context.Context, io *cli.IO) error {
	o := &c.Options
	log := o.Observe.Logger(io)
	servers, err := bridges(o.MCP.configs, io.Environ, log)
	if err != nil {
		return err
	}
	if names := o.readable(); len(names) > 0 {
		log.Warn("bash commands can read the environment of MCP servers: same user, no sandbox",
			"mcp", names, "remedy", "--sandbox, or serve bash from a worker of another user and leave it out of --tools here")
	}
	conn, err := connect(ctx, o, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	traces, err := observe.NewTraces(ctx, o.Observe.OTLP, "toolworker", o.Server.ID)
	if err != nil {
		return err
	}
	defer traces.Close()
	w := &process{o: o, conn: conn, servers: servers, log: log, metrics: observe.NewRegistry("toolworker", version())}
	serve := toolserve.Options{
		ID: o.Server.ID, Workspace: o.Tools.Workspace, Tools: o.Tools.Tools, Root: o.Tools.Root, Env: o.Tools.Env,
		Private: o.private(), Bash: o.Sandbox.bash(o), Concurrency: o.Tools.Concurrency, AckWait: o.Tools.AckWait,
		StopTimeout: o.Server.StopTimeout, ReadTimeout: cmp.Or(o.Tools.ReadTimeout, -1), Environ: io.Environ, Logger: log,
		Registerer: w.metrics, Trace: traces.Execute, NoResources: o.Tools.NoResources,
	}
	return w.serve(ctx, serve, io.Stdin, io.Stdout)
}

// connect connects to the server and creates the streams if a runner has not done so yet, unless --leave-streams is
// set.
func connect(ctx context.Context, o *options, log *slog.Logger) (*bus.Conn, error) {
	soon, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := o.Server.Connection.Bus(soon, "toolworker "+o.Server.ID, log)
	if err != nil {
		return nil, err
	}
	if o.Server.LeaveStreams {
		return conn, nil
	}
	if err := streams.Setup(ctx, conn, streams.Options{}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
