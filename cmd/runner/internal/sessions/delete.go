package sessions

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// Delete is `runner sessions delete`.
type Delete struct {
	Where    `embed:""`
	Force    bool     `brief:"" help:"Abort the run in progress and delete the session anyway."`
	Sessions []string `arg:"" optional:"" name:"session"`
}

// Check validates the session ids.
func (d *Delete) Check(*cli.Call) []error { return checkAll(d.Sessions) }

// Run deletes the sessions and prints how many events each had.
func (d *Delete) Run(ctx context.Context, io *cli.IO) error {
	return d.with(ctx, io, func(ctx context.Context, p *place) error {
		return each(d.Sessions, io.Stderr, func(session string) error {
			return p.delete(ctx, io, retention.Request{Session: session, Force: d.Force, Reason: "command"})
		})
	})
}

func (p *place) delete(ctx context.Context, io *cli.IO, r retention.Request) error {
	done, err := p.deleter.Delete(ctx, r)
	if errors.Is(err, retention.ErrBusy) {
		err = fmt.Errorf("%w; --force aborts the run and deletes the session", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(io.Stdout, "%s: deleted, %d events\n", r.Session, done.Events)
	if done.Shared > 0 {
		fmt.Fprintf(io.Stderr, "%s: kept %d payloads in the object store: an earlier version stored them under names that "+
			"other sessions may share\n", r.Session, done.Shared)
	}
	return nil
}
