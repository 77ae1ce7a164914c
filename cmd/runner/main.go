// Command runner drives agents: it reads the commands of its share of the sessions, calls models, dispatches tool calls
// and writes every event to the sessions' logs. With --prompt it does all of that for one prompt and exits; as "runner
// models", "runner tools" and "runner profiles" it lists what there is.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/cmd/internal/signals"
)

// errUnusual says that a run ended, but not of its own accord.
var errUnusual = errors.New("the run did not end normally")

func main() {
	err := run(signals.Context(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, config.ErrHelp):
	case errors.Is(err, errUnusual): // has been shown
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "runner:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "models" {
		return listModels(args[1:], getenv, stdout)
	}
	if len(args) > 0 && args[0] == "tools" {
		return listTools(ctx, args[1:], getenv, stdout)
	}
	if len(args) > 0 && args[0] == "profiles" {
		return listProfiles(ctx, args[1:], getenv, stdout)
	}
	o, err := parse(args, getenv, stdout)
	if err != nil {
		return err
	}
	log := newLogger(o, stderr)
	if o.oneShot() {
		return runOnce(ctx, o, getenv, log, stdout, stderr)
	}
	return serve(ctx, o, log)
}
