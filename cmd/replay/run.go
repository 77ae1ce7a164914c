package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/loopbus/loopbus/cmd/internal/config"
)

// Exit statuses.
const (
	exitOK    = 0
	exitBad   = 1
	exitUsage = 2
)

// errReported says that not all is well and that the output has said so already.
var errReported = errors.New("reported")

// usageError says that the command line is wrong.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// command is one of replay's commands.
type command struct {
	name     string
	args     string // in the usage line
	summary  string
	min, max int // number of arguments; a negative max is any
	flags    func(set *config.Set, o *options)
	run      func(ctx context.Context, a *app) error
}

func commands() []command {
	return []command{
		{"list", "", "the sessions, the most recently active first", 0, 0, listFlags, runList},
		{"show", "SESSION", "a session's transcript", 1, 1, showFlags, runShow},
		{"state", "SESSION", "the state that a session's log comes to, as JSON", 1, 1, atFlag, runState},
		{"verify", "[SESSION ...]", "prove that logs are complete, in order, valid and unchanged", 0, -1, jsonFlag, runVerify},
		{"export", "SESSION|--all", "logs as CloudEvents, one JSON object per line", 0, 1, exportFlags, runExport},
	}
}

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
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	out := bufio.NewWriter(stdout)
	err := dispatch(ctx, args, getenv, stdout, out, stderr)
	if flushed := out.Flush(); err == nil && flushed != nil {
		err = fmt.Errorf("write output: %w", flushed)
	}
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitBad
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "replay: %s\n", visible(err.Error()))
		return exitUsage
	}
	fmt.Fprintf(stderr, "replay: %s\n", visible(err.Error()))
	return exitBad
}

func dispatch(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer, out *bufio.Writer, stderr io.Writer) error {
	cmd, o, err := parse(args, getenv, out)
	switch {
	case errors.Is(err, config.ErrHelp):
		return nil
	case err != nil:
		return usageError{err}
	}
	a := &app{o: o, out: out, toTerm: isTerminal(stdout)}
	a.style = style(a.toTerm && wantsColour(getenv))
	a.log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if a.logs, err = openLogs(ctx, o, a.log); err != nil {
		return err
	}
	defer a.logs.close()
	return cmd.run(ctx, a)
}
