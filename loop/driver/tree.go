package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/internal/jsonroom"
	"github.com/loopbus/loopbus/schemas"
)

// textNoPath is why a navigation is rejected in a program that cannot read the log.
const textNoPath = "This agent cannot go to an entry: it has no log to read it from"

// navigate moves the leaf of the session's tree. It reads the path from the log, after a flush. If services of
// session_before_tree have to decide first it asks them, and the step has to be chosen again.
func (d *Driver) navigate(ctx context.Context, step loop.Navigate) error {
	if d.o.Path == nil {
		return d.refuseNavigation(ctx, step, schemas.RejectState, textNoPath)
	}
	if err := d.Flush(ctx); err != nil {
		return err
	}
	if d.asksBeforeTree(ctx) {
		return d.askBeforeTree(ctx, step)
	}
	config, err := d.summaryConfig(ctx)
	if err != nil {
		return err
	}
	return d.withPath(ctx, step, func(path *loop.Path) error {
		var moved schemas.EventData
		d.View(func(s *loop.State) { moved = s.Moved(path, loop.Asking(config)) })
		return d.storeCopies(ctx, moved, func() (err error) {
			d.View(func(s *loop.State) {
				if loop.Next(s) == loop.Step(step) { // no command has changed that
					_, err = d.append(ctx, s.Moved(path, loop.Asking(config)), step.CommandID)
				}
			})
			return err
		})
	})
}

func (d *Driver) refuseNavigation(ctx context.Context, step loop.Navigate, code schemas.RejectCode,
	reason string,
) error {
	return d.emit(ctx, &schemas.CommandRejected{CommandID: step.CommandID, Kind: schemas.CommandNavigate, Code: code,
		Reason: reason}, step.CommandID)
}

// withPath calls use with the path to the entry of a navigation, or rejects the navigation if there is no such entry.
// A large path waits for others to end, and may not be kept.
func (d *Driver) withPath(ctx context.Context, step loop.Navigate, use func(path *loop.Path) error) error {
	loading, end := d.o.Loads.Load(ctx)
	defer end()
	path, err := resultOf(d, "path", func() (*loop.Path, error) { return d.o.Path(loading, d.session, step.TargetID) })
	if errors.Is(err, loop.ErrNoEntry) {
		return d.refuseNavigation(ctx, step, schemas.RejectNotFound, fmt.Sprintf("Entry %s not found", step.TargetID))
	}
	if err != nil {
		return err
	}
	return use(path)
}

// copied returns the messages that an event has from another session or path.
func copied(data schemas.EventData) schemas.Messages {
	switch data := data.(type) {
	case *schemas.SessionBranched:
		return data.Messages
	case *schemas.BranchSummaryStart:
		return data.Move.Copied()
	case *schemas.Leaf:
		return data.Copied()
	}
	return nil
}

// waitsForRoom reports whether an event has so many messages from another session or path that it is stored by
// [Driver.storeCopies].
func waitsForRoom(data schemas.EventData) bool { return jsonroom.Copies.Waits(copied(data).JSONSize()) }

// storeCopies calls put, which appends the event. If its messages from another session or path are large it first waits
// for the room in memory that storing takes, and returns once the event is stored.
func (d *Driver) storeCopies(ctx context.Context, data schemas.EventData, put func() error) error {
	size := copied(data).JSONSize()
	if !jsonroom.Copies.Waits(size) {
		return put()
	}
	d.send()
	release, err := jsonroom.Copies.Wait(ctx, size)
	if err != nil {
		return err
	}
	defer release()
	if err := put(); err != nil {
		return err
	}
	return d.Flush(ctx)
}

// emitCopies is [Driver.emit] for an event that is stored by [Driver.storeCopies]. A command may have changed what is
// due while the event waited.
func (d *Driver) emitCopies(ctx context.Context, step loop.Emit) error {
	return d.storeCopies(ctx, step.Data, func() (err error) {
		d.View(func(s *loop.State) {
			if due, ok := loop.Next(s).(loop.Emit); ok && due.Data.EventType() == step.Data.EventType() {
				_, err = d.append(ctx, due.Data, due.CausationID)
			}
		})
		return err
	})
}

// asksBeforeTree reports whether services of session_before_tree have to decide about the navigation under way.
func (d *Driver) asksBeforeTree(ctx context.Context) (due bool) {
	d.View(func(s *loop.State) { due = s.Navigating != nil && s.Navigating.Decision == nil })
	return due && d.inquiryAnyTime(ctx, schemas.HookSessionBeforeTree) != nil
}

// askBeforeTree asks these services. While they decide, the path is not in memory.
func (d *Driver) askBeforeTree(ctx context.Context, step loop.Navigate) error {
	var req *schemas.HookRequest
	err := d.withPath(ctx, step, func(path *loop.Path) error {
		d.View(func(s *loop.State) {
			if n := s.Navigating; n != nil && n.Decision == nil {
				command := n.Navigate
				req = &schemas.HookRequest{CommandID: n.CommandID, Navigation: &command, Messages: s.Left(path)}
			}
		})
		return nil
	})
	if req == nil || err != nil {
		return err
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
	_, err = d.askAnyTime(ctx, schemas.HookSessionBeforeTree, req, use)
	return err
}

// Copy puts a copy of another session into this one, if it has not begun and the log does not know the command. It
// reads the copy, nil if there is none, and calls end once that is stored, or not needed. If the copy is from an entry,
// Copy first asks the services of session_before_fork, and reads the copy again after that; the decision is stored
// together with the copy, or with the rejection of the command.
func (d *Driver) Copy(ctx context.Context, c schemas.Command, b *schemas.Branch,
	read func() (copied *schemas.SessionBranched, end func(), err error),
) error {
	d.mu.Lock()
	due, broken := d.copyDue(c.ID), d.broken
	d.mu.Unlock()
	if !due {
		return broken
	}
	copied, end, err := read()
	if err != nil {
		return err
	}
	defer func() { end() }()
	if copied == nil {
		return nil
	}
	var decision *schemas.HookDecision
	if q := d.forkInquiry(ctx, b, loop.Settings{}.With(copied.Settings)); q != nil {
		copied = nil
		end() // services may take long
		end = func() {}
		if decision, err = q.askFork(ctx, c, b); err != nil {
			return err
		}
		again, endAgain, err := read()
		if err != nil {
			return err
		}
		if copied, end = again, endAgain; copied == nil {
			return nil
		}
	}
	return d.storeCopies(ctx, copied, func() error { return d.putCopy(ctx, c, copied, decision) })
}

// putCopy appends a copy with its decision, nil if there is none, or the rejection of the command.
func (d *Driver) putCopy(ctx context.Context, c schemas.Command, copied *schemas.SessionBranched,
	decision *schemas.HookDecision,
) error {
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

// forkInquiry returns the inquiry about a copy from an entry, nil if there are no services. They are those of the
// profile of the session that is copied: the new one has none yet, or one that would let every copy pass. set are the
// settings of the copied session at the entry.
func (d *Driver) forkInquiry(ctx context.Context, b *schemas.Branch, set loop.Settings) *inquiry {
	if b.EntryID == "" {
		return nil
	}
	return d.inquiry(schemas.HookSessionBeforeFork, d.inputHooks(ctx, b.Session, set))
}

func (q *inquiry) askFork(ctx context.Context, c schemas.Command, b *schemas.Branch) (*schemas.HookDecision, error) {
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
