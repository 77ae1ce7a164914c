// Command toolworker announces tools on a message bus and executes the calls that agents make of them: the built-in ones, and those
// of MCP servers. It can also be an MCP server itself, which offers what is announced to MCP clients.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/cmd/internal/signals"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/tools/bash"
)

// connectTimeout is how long the server may take to be there, and to set up the streams.
const connectTimeout = 10 * time.Second

func main() {
	bash.RunHelper()
	err := run(signals.Context(), os.Args[1:], os.Getenv, os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, config.ErrHelp) {
		fmt.Fprintln(os.Stderr, "toolworker:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends and then drains. What is read from stdin and written to stdout is the Model Context Protocol's, if it
// was asked for, and nothing else is.
func run(ctx context.Context, args []string, getenv func(string) string, environ []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parse(args, getenv, stdout)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: o.level}))
	servers, err := bridges(o.mcp.configs, environ, log)
	if err != nil {
		return err
	}
	conn, err := connect(ctx, o, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	serve := toolserve.Options{
		ID: o.id, Workspace: o.workspace, Tools: o.tools, Root: o.root, Env: o.env, Bash: o.sandbox.bash(o), Concurrency: o.concurrency, StopTimeout: o.stopTimeout,
		Environ: environ, Logger: log,
	}
	return o.serve(ctx, conn, serve, servers, stdin, stdout, log)
}

// serve runs all that was asked for until ctx ends, one of them fails, or the MCP client is gone that it is all for.
func (o *options) serve(ctx context.Context, conn *bus.Conn, serve toolserve.Options, servers []*bridged, in io.Reader, out io.Writer, log *slog.Logger) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	jobs, ctx := errgroup.WithContext(ctx)
	if len(o.tools) > 0 {
		jobs.Go(func() error { return toolserve.Run(ctx, conn, serve) })
	}
	for _, b := range servers {
		jobs.Go(func() error { b.run(ctx, conn, serve); return nil })
	}
	if o.mcp.serves() {
		jobs.Go(func() error {
			defer end()
			return serveMCP(ctx, conn, o, in, out, log)
		})
	}
	return jobs.Wait()
}

// connect reaches the server and makes sure that the streams are there, whoever starts first.
func connect(ctx context.Context, o *options, log *slog.Logger) (*bus.Conn, error) {
	soon, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := bus.Connect(soon, bus.ConnOptions{
		URL: o.nats, CredsFile: o.creds, Prefix: o.prefix, InboxPrefix: o.inboxPrefix, Name: "toolworker " + o.id, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	if err := bus.Setup(ctx, conn, bus.StreamOptions{}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
