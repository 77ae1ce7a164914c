package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// errReported says that not all is well and that the output has said so already.
var errReported = cli.StatusError{Status: cli.StatusBad}

// app is one invocation.
type app struct {
	o      options
	out    *bufio.Writer
	log    *slog.Logger // to stderr
	style  style
	toTerm bool // out is a terminal
	*logs
}

// run is the whole program but for the process: it returns the exit status. It ends soon after ctx does.
func run(ctx context.Context, args []string, io *cli.IO) int {
	p := program()
	return cli.Exit(p.Name, p.Run(ctx, args, io), io.Stderr)
}

// invoked has do read the logs that the options name.
func invoked(ctx context.Context, io *cli.IO, o options, do func(context.Context, *app) error) error {
	return printed(io, o, func(a *app) error {
		return withLogs(ctx, o, a.log, func(ctx context.Context, l *logs) error {
			a.logs = l
			return do(ctx, a)
		})
	})
}

// printed has do print. It has no logs yet.
func printed(io *cli.IO, o options, do func(*app) error) (err error) {
	out := bufio.NewWriter(io.Stdout)
	defer func() {
		if flushed := out.Flush(); err == nil && flushed != nil {
			err = fmt.Errorf("write output: %w", flushed)
		}
	}()
	a := &app{o: o, out: out, toTerm: cli.IsTerminal(io.Stdout)}
	a.style = style(cli.WantsColour(io.Stdout, io.Getenv))
	a.log = slog.New(slog.NewTextHandler(io.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return do(a)
}
