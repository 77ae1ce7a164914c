// Package listing implements the runner's commands that only read from a deployment: tools, profiles and runners.
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

// lookTimeout limits how long a listing may take, including the connection.
const lookTimeout = 10 * time.Second

// Looking has the settings of the commands that only read.
type Looking struct {
	Config     cli.Config     `embed:""`
	Connection cli.Connection `embed:"" group:"server"`
	JSON       bool           `name:"json" brief:"" help:"Print one JSON object per line."`
}

// look connects with a connection name and calls use.
func (l *Looking) look(ctx context.Context, name string, use func(context.Context, *bus.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return l.Connection.Look(ctx, "loopbus runner "+name, nil, use)
}

// printLines prints one JSON object per line.
func printLines[T any](list []T, out io.Writer) (err error) {
	lines := json.NewEncoder(cli.JSONOut(out, cli.IsTerminal(out)))
	for _, v := range list {
		err = errors.Join(err, lines.Encode(v))
	}
	return err
}
