package driver

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// textNowhere is why an agent whose log cannot be read goes nowhere.
const textNowhere = "This agent cannot go to an entry: it has no log to read it from"

// navigate moves the leaf. The path is read from the log, which has everything up to here by then.
func (d *Driver) navigate(ctx context.Context, step loop.Navigate) error {
	refuse := func(code, reason string) error {
		return d.emit(ctx, &schemas.CommandRejected{CommandID: step.CommandID, Kind: schemas.CommandNavigate, Code: code,
			Reason: reason}, step.CommandID)
	}
	if d.o.Path == nil {
		return refuse(schemas.RejectState, textNowhere)
	}
	if err := d.Flush(ctx); err != nil {
		return err
	}
	var path *loop.Path
	err := d.outside("path", func() (err error) {
		path, err = d.o.Path(ctx, d.session, step.TargetID)
		return err
	})
	if errors.Is(err, loop.ErrNoEntry) {
		return refuse(schemas.RejectNotFound, fmt.Sprintf("Entry %s not found", step.TargetID))
	}
	if err != nil {
		return err
	}
	if asked, err := d.askBeforeTree(ctx, path); asked || err != nil {
		return err
	}
	config, err := d.summaryConfig(ctx)
	if err != nil {
		return err
	}
	d.View(func(s *loop.State) {
		if next, ok := loop.Next(s).(loop.Navigate); ok && next == step { // a command may have come meanwhile
			_, err = d.append(ctx, s.Moved(path, loop.Asking(config)), step.CommandID)
		}
	})
	return err
}
