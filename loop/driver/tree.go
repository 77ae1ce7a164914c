package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// textNoPath is why a navigation is rejected in a program that cannot read the log.
const textNoPath = "This agent cannot go to an entry: it has no log to read it from"

// navigate moves the leaf of the session's tree. It reads the path from the log, after a flush.
func (d *Driver) navigate(ctx context.Context, step loop.Navigate) error {
	refuse := func(code schemas.RejectCode, reason string) error {
		return d.emit(ctx, &schemas.CommandRejected{CommandID: step.CommandID, Kind: schemas.CommandNavigate, Code: code,
			Reason: reason}, step.CommandID)
	}
	if d.o.Path == nil {
		return refuse(schemas.RejectState, textNoPath)
	}
	if err := d.Flush(ctx); err != nil {
		return err
	}
	path, err := resultOf(d, "path", func() (*loop.Path, error) { return d.o.Path(ctx, d.session, step.TargetID) })
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
		if loop.Next(s) == loop.Step(step) { // no command has changed that
			_, err = d.append(ctx, s.Moved(path, loop.Asking(config)), step.CommandID)
		}
	})
	return err
}

// askBeforeTree asks the services of session_before_tree about the navigation under way, once. If it has asked, the
// step has to be chosen again.
func (d *Driver) askBeforeTree(ctx context.Context, path *loop.Path) (asked bool, err error) {
	var req schemas.HookRequest
	decided := true
	d.View(func(s *loop.State) {
		if n := s.Navigating; n != nil && n.Decision == nil {
			command := n.Navigate
			decided, req = false, schemas.HookRequest{CommandID: n.CommandID, Navigation: &command, Messages: s.Left(path)}
		}
	})
	if decided {
		return false, nil
	}
	use := func(a schemas.HookAnswer, decision *schemas.HookDecision) (changed bool, err error) {
		if a.Cancel {
			decision.Block = true
			return true, errDecided
		}
		if a.Summary != "" {
			decision.Summary, changed = a.Summary, true
		}
		if a.CustomInstructions != nil {
			decision.CustomInstructions, changed = a.CustomInstructions, true
		}
		if a.ReplaceInstructions != nil {
			decision.ReplaceInstructions, changed = a.ReplaceInstructions, true
		}
		if a.Label != nil {
			decision.Label, changed = a.Label, true
		}
		return changed, nil
	}
	return d.askAnyTime(ctx, schemas.HookSessionBeforeTree, &req, use)
}

// Copy puts a copy of another session into this one, if it has not begun and the log does not know the command. If the
// copy is from an entry, Copy first asks the services of session_before_fork; the decision is stored together with the
// copy, or with the rejection of the command.
func (d *Driver) Copy(
	ctx context.Context, c schemas.Command, b *schemas.Branch, copied *schemas.SessionBranched,
) error {
	d.mu.Lock()
	due, broken := d.copyDue(c.ID), d.broken
	d.mu.Unlock()
	if !due {
		return broken
	}
	decision, err := d.askFork(ctx, c, b, loop.Settings{}.With(copied.Settings))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.copyDue(c.ID) {
		return d.broken
	}
	events := []schemas.EventData{copied}
	if decision != nil {
		events = append([]schemas.EventData{decision}, copied)
		if decision.Block {
			events[1] = &schemas.CommandRejected{CommandID: c.ID, Kind: schemas.CommandBranch, Code: schemas.RejectAborted,
				Reason:        cmp.Or(decision.Reason, "The fork was cancelled by "+decision.By),
				InboxPosition: d.state.Known.Position(c.InboxPosition)}
		}
	}
	for _, data := range events {
		if _, err := d.append(ctx, data, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// copyDue reports whether a branch command still needs its copy. The caller holds the lock.
func (d *Driver) copyDue(command string) bool {
	return d.broken == nil && d.state.Branchable() && !d.state.Known.Has(command)
}

// askFork asks the services of session_before_fork about a copy from an entry, where the services are those of the
// profile of the session that is copied: the new one has none yet, or one that would let every copy pass. set are the
// settings of the copied session at the entry. askFork returns nil if there are no services.
func (d *Driver) askFork(ctx context.Context, c schemas.Command, b *schemas.Branch, set loop.Settings) (
	*schemas.HookDecision, error,
) {
	if b.EntryID == "" {
		return nil, nil
	}
	q := d.inquiry(schemas.HookSessionBeforeFork, d.inputHooks(ctx, b.Session, set))
	if q == nil {
		return nil, nil
	}
	decision := &schemas.HookDecision{CommandID: c.ID}
	req := &schemas.HookRequest{CommandID: c.ID, Fork: b}
	err := q.ask(ctx, ctx, req, func(a schemas.HookAnswer) (bool, error) {
		if a.Cancel {
			decision.Block = true
			return true, errDecided
		}
		return false, nil
	})
	q.record(decision)
	return decision, err
}

// askAnyTime asks the services of a hook that may also be due outside a run. If it has asked, the decision is in the
// log and the step has to be chosen again.
func (d *Driver) askAnyTime(ctx context.Context, hook schemas.HookName, req *schemas.HookRequest,
	use func(a schemas.HookAnswer, decision *schemas.HookDecision) (decided bool, err error),
) (asked bool, err error) {
	q := d.inquiryAnyTime(ctx, hook)
	if q == nil {
		return false, nil
	}
	signal, end := d.summarySignal(ctx)
	defer end()
	decision := &schemas.HookDecision{CommandID: req.CommandID}
	return true, q.decide(ctx, signal, req, decision, func(a schemas.HookAnswer) (bool, error) { return use(a, decision) })
}

// inquiryAnyTime returns the inquiry of a hook that may also be due outside a run, where the services are those of the
// session's profile.
func (d *Driver) inquiryAnyTime(ctx context.Context, hook schemas.HookName) *inquiry {
	var refs []schemas.HookRef
	var set loop.Settings
	running := false
	d.View(func(s *loop.State) { refs, set, running = s.Config.Hooks, s.Settings.Clone(), s.Run != nil })
	if !running && d.o.InputHooks != nil {
		refs = d.inputHooks(ctx, d.session, set)
	}
	return d.inquiry(hook, refs)
}
