package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// errReported ends the program with status 1 after the output has reported the problem.
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

// run is the program without its process. It returns the exit status, soon after ctx ends.
func run(ctx context.Context, args []string, io *cli.IO) int {
	p := program()
	return cli.Exit(p.Name, p.Run(ctx, args, io), io.Stderr)
}

// invoked calls do with the logs that the options select.
func invoked(ctx context.Context, io *cli.IO, o options, do func(context.Context, *app) error) error {
	return printed(io, o, func(a *app) error {
		return withLogs(ctx, o, a.log, func(ctx context.Context, l *logs) error {
			a.logs = l
			return do(ctx, a)
		})
	})
}

// printed calls do with an output, without logs.
func printed(io *cli.IO, o options, do func(*app) error) (err error) {
	out := bufio.NewWriter(io.Stdout)
	defer func() {
		if flushed := out.Flush(); err == nil && flushed != nil {
			err = fmt.Errorf("write output: %w", flushed)
		}
	}()
	a := &app{o: o, out: out, toTerm: cli.IsTerminal(io.Stdout)}
	a.style = style(cli.WantsColour(io.Stdout, io.Getenv))
	a.log = slog.New(slog.NewTextHandler(io.Stderr, cli.LogOptions(slog.LevelWarn)))
	return do(a)
}
