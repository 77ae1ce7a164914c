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
	Force    bool     `brief:"" help:"Abort what is under way, and delete the session all the same."`
	Sessions []string `arg:"" optional:"" name:"session"`
}

// Check validates the ids.
func (d *Delete) Check(*cli.Call) []error { return checkAll(d.Sessions) }

// Run deletes the sessions and says what each had.
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
		err = fmt.Errorf("%w; --force aborts what is under way", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(io.Stdout, "%s: deleted, %d events\n", r.Session, done.Events)
	if done.Shared > 0 {
		fmt.Fprintf(io.Stderr, "%s: %d payloads stay in the object store: an earlier version named them so that other "+
			"sessions may have the same\n", r.Session, done.Shared)
	}
	return nil
}
