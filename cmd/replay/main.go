// Command replay reads the logs of sessions: it lists and shows them, folds them into states, verifies them and exports
// them. It writes nothing: no event, no command, no stream; but import writes the logs of sessions that it makes from
// files, and rerun sends commands to a session that it makes. With --nats it reads from a running server, with --store
// straight from the store of an embedded server that is not running.
//
// The exit status is 0 only where all is well: what was asked for is there, was read completely and, for verify and
// export, proved to be what its writers wrote. It is 1 otherwise, and 2 if the command line is wrong.
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
