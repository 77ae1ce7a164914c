// Package sessions implements `runner sessions`: list, delete, export, archive and restore.
package sessions

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// Where has the settings of the connection.
type Where struct {
	Config     cli.Config     `embed:""`
	Connection cli.Connection `embed:"" group:"server"`
}

// place is a connection with what is needed to work on sessions.
type place struct {
	conn    *bus.Conn
	store   *eventstore.Store
	deleter *retention.Deleter
}

// with connects and calls use. If a permission is missing, it returns an error that names it.
func (w *Where) with(ctx context.Context, io *cli.IO, use func(ctx context.Context, p *place) error) error {
	return w.reading(ctx, io, eventstore.Options{}, use)
}

// reading is like with, for a log that is read with options.
func (w *Where) reading(ctx context.Context, io *cli.IO, o eventstore.Options,
	use func(ctx context.Context, p *place) error) error {
	log := slog.New(slog.NewTextHandler(io.Stderr, cli.LogOptions(slog.LevelWarn)))
	return w.Connection.Look(ctx, "loopbus runner sessions", log, func(ctx context.Context, conn *bus.Conn) error {
		o.Subjects, o.Logger = conn.Subjects(), log
		store, err := eventstore.New(conn.Events(), o)
		if err != nil {
			return err
		}
		return use(ctx, &place{conn, store, retention.NewDeleter(conn, retention.Options{Store: store, Logger: log})})
	})
}

// checkAll validates session ids; at least one is required.
func checkAll(sessions []string) (errs []error) {
	if len(sessions) == 0 {
		errs = append(errs, fmt.Errorf("no session given"))
	}
	for _, session := range sessions {
		if err := schemas.CheckSession(session); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// each calls do for each session, even after errors, and prints the errors.
func each(sessions []string, errOut io.Writer, do func(session string) error) error {
	failed := 0
	for _, session := range sessions {
		if err := do(session); err != nil {
			failed++
			fmt.Fprintf(errOut, "runner: %s\n", cli.Visible(err.Error()))
		}
	}
	if failed > 0 {
		return cli.StatusError{Status: cli.StatusBad}
	}
	return nil
}
