// Command replay reads the logs of sessions: it lists and shows them, folds them into states, verifies and exports
// them. It writes no event, command or stream, with two exceptions: import writes the logs of new sessions from
// files, and rerun sends commands to a new session. With --nats it reads from a running server, with --store directly
// from the store of an embedded server that is not running.
//
// The exit status is 0 only if everything requested exists, was read completely and, for verify and export, is what
// its writers wrote. It is 1 otherwise, and 2 for a usage error.
package main

import (
	"os"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/signals"
)

func main() {
	os.Exit(run(signals.Context(), os.Args[1:], &cli.IO{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ(),
	}))
}
