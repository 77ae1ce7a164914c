// Package listing has the commands of the runner that only read from a bus: tools, profiles, runners, sessions.
package listing

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// lookTimeout bounds how long a listing takes, connecting included.
const lookTimeout = 10 * time.Second

// Looking has the settings of commands that only read from a bus.
type Looking struct {
	Config     cli.Config     `embed:""`
	Connection cli.Connection `embed:"" group:"server"`
	JSON       bool           `name:"json" brief:"" help:"Print a JSON object a line."`
}

// look connects under a name and calls use.
func (l *Looking) look(ctx context.Context, name string, use func(context.Context, *bus.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return l.Connection.Look(ctx, "loopbus runner "+name, nil, use)
}

// printLines prints a JSON object a line.
func printLines[T any](list []T, out io.Writer) (err error) {
	lines := json.NewEncoder(cli.JSONOut(out, cli.IsTerminal(out)))
	for _, v := range list {
		err = errors.Join(err, lines.Encode(v))
	}
	return err
}
