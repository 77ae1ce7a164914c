package driver

import (
	"cmp"
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
	refuse := func(code schemas.RejectCode, reason string) error {
		return d.emit(ctx, &schemas.CommandRejected{CommandID: step.CommandID, Kind: schemas.CommandNavigate, Code: code,
			Reason: reason}, step.CommandID)
	}
	if d.o.Path == nil {
		return refuse(schemas.RejectState, textNowhere)
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
		if loop.Next(s) == loop.Step(step) { // a command may have come meanwhile
			_, err = d.append(ctx, s.Moved(path, loop.Asking(config)), step.CommandID)
		}
	})
	return err
}

// askBeforeTree asks the services of session_before_tree about the navigation under way, once.
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
	return d.askBeside(ctx, schemas.HookSessionBeforeTree, &req, use)
}

// Copy puts a copy into a session that has not begun, unless the log knows the command. The services of
// session_before_fork are asked first where the copy is one from an entry: what they decide is stored with it, or with
// the refusal of the command.
func (d *Driver) Copy(
	ctx context.Context, c schemas.Command, b *schemas.Branch, copied *schemas.SessionBranched,
) error {
	d.mu.Lock()
	due, broken := d.copyDue(c.ID), d.broken
	d.mu.Unlock()
	if !due {
		return broken
	}
	decision, err := d.askFork(ctx, c, b)
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
				Reason: cmp.Or(decision.Reason, "The fork was cancelled by "+decision.By)}
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

// askFork asks the services of session_before_fork about a copy from an entry; nil where there are none.
func (d *Driver) askFork(ctx context.Context, c schemas.Command, b *schemas.Branch) (*schemas.HookDecision, error) {
	if b.EntryID == "" {
		return nil, nil
	}
	q := d.inquiryBeside(ctx, schemas.HookSessionBeforeFork)
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

// askBeside asks the services of a hook about what may be done outside of a run too. Where it has asked, the decision
// is in the log and the step is to be chosen again.
func (d *Driver) askBeside(ctx context.Context, hook schemas.HookName, req *schemas.HookRequest,
	use func(a schemas.HookAnswer, decision *schemas.HookDecision) (decided bool, err error),
) (asked bool, err error) {
	q := d.inquiryBeside(ctx, hook)
	if q == nil {
		return false, nil
	}
	signal, end := d.summarySignal(ctx)
	defer end()
	decision := &schemas.HookDecision{CommandID: req.CommandID}
	return true, q.decide(ctx, signal, req, decision, func(a schemas.HookAnswer) (bool, error) { return use(a, decision) })
}

// inquiryBeside is the inquiry of a hook that is asked at outside of a run too: then it is those of the session's
// profile who are asked.
func (d *Driver) inquiryBeside(ctx context.Context, hook schemas.HookName) *inquiry {
	var refs []schemas.HookRef
	var set loop.Settings
	running := false
	d.View(func(s *loop.State) { refs, set, running = s.Config.Hooks, s.Settings.Clone(), s.Run != nil })
	if !running && d.o.InputHooks != nil {
		refs = d.inputHooks(ctx, set)
	}
	return d.inquiry(hook, refs)
}
