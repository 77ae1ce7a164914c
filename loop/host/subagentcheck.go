package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// A parent at rest learns about its sub-agents only from their results. A sub-agent whose session was deleted, or whose
// result was given up, sends none. So a session that waits for sub-agents has a timer, and when it fires the runner
// reads the sub-agents' logs (decision 129).

// Result texts for sub-agents that will not send one.
const (
	textGone       = "The session of the sub-agent is gone: it was deleted"
	textResultLost = "The result of the sub-agent was lost on its way; what it did is in the log of its session"
)

// setSubagentCheck sets the timer of a session that has sub-agents at work, and cancels it when it has none left. Every
// process sets its own timer, because it cannot know what an earlier one did.
func (h *Host) setSubagentCheck(ctx context.Context, e *entry) {
	if h.o.Timers == nil || h.o.Outbox == nil {
		return
	}
	open := 0
	e.driver.View(func(s *loop.State) { open = len(s.Children) })
	now := h.o.Clock.Now()
	at := now.Add(h.o.SubagentCheck)
	h.mu.Lock()
	was := e.checkAt
	set := open > 0 && !now.Before(was) // was is zero if this process has set no timer
	switch {
	case set:
		e.checkAt = at
	case open == 0:
		e.checkAt = time.Time{}
	}
	h.mu.Unlock()
	switch {
	case set: // other deliveries need not wait: this one is not acknowledged before the timer is set
		err := h.o.Timers.Schedule(ctx, e.session, at, schemas.Timer{Name: schemas.TimerSubagents})
		if err != nil {
			h.o.Logger.Warn("timer of sub-agents not set", "session", e.session, "err", err)
			h.mu.Lock()
			e.checkAt = was // the next delivery tries again
			h.mu.Unlock()
		}
	case open == 0 && !was.IsZero():
		if err := h.o.Timers.Cancel(ctx, e.session, schemas.TimerSubagents); err != nil { // it would change nothing
			h.o.Logger.Debug("timer of sub-agents not cancelled", "session", e.session, "err", err)
		}
	}
}

// checkDue notes that the timer of a session's sub-agents has fired, whatever the clock of this process says: the next
// one is to be set.
func (h *Host) checkDue(session string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.entries[session]; e != nil {
		e.checkAt = time.Time{}
	}
}

// checkSubagents answers for the sub-agents of a session that will not send a result. It does nothing while the session
// is awake, because a prompt may not have been sent yet. [Host.use] sets the timer again.
func (h *Host) checkSubagents(ctx context.Context, c schemas.Command, entered func()) error {
	if err := h.drive(ctx, c, entered); err != nil || h.o.Outbox == nil {
		return err
	}
	return h.with(ctx, c.Session, nil, func(d *driver.Driver) error {
		if !d.Resting() {
			return nil
		}
		var children []loop.Child
		d.View(func(s *loop.State) { children = append(children, s.Children...) })
		for _, child := range children {
			text, err := h.lost(ctx, c.Session, &child)
			if err != nil {
				return fmt.Errorf("session %s: check its sub-agent %s: %w", c.Session, child.Start.Session, err)
			}
			if text == "" || !isOpen(d, c.Session, &child) { // its result may have come meanwhile
				continue
			}
			r := lostResult(c.Session, &child, text)
			h.o.Logger.Warn("sub-agent lost", "session", c.Session, "subagent", child.Start.Session, "reason", text)
			if err := d.Handle(ctx, r, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// isOpen reports whether a session waits for a sub-agent.
func isOpen(d *driver.Driver, parent string, child *loop.Child) (open bool) {
	d.View(func(s *loop.State) {
		open = slices.ContainsFunc(s.Children, func(c loop.Child) bool { return c.Link(parent) == child.Link(parent) })
	})
	return open
}

// checkSilent answers for the calls and sub-agents of a silent session that will not be answered, and takes its next
// step. The calls come first: a session that is loaded dispatches calls again that it finds nowhere, and this one was
// executed perhaps (decision 162).
func (h *Host) checkSilent(ctx context.Context, c schemas.Command, entered func()) error {
	err := h.with(ctx, c.Session, nil, func(d *driver.Driver) error { return d.AnswerLost(ctx) })
	if err != nil {
		return err
	}
	return h.checkSubagents(ctx, c, entered)
}

// lostResult returns the result of a sub-agent that sends none. If it sends one after all, that changes nothing.
func lostResult(parent string, child *loop.Child, text string) schemas.Command {
	link := child.Link(parent)
	return schemas.Command{ID: link.ResultID(), Session: parent, Data: &schemas.SubagentResult{
		Call: link.Call, Nonce: link.Nonce, Session: child.Start.Session, Text: text, IsError: true,
	}}
}

// lost returns why a sub-agent that the parent's state has at work will not answer, or "" if it still may. The checks
// have to be in this order: a command is settled after the log has it, and a result is stored before the log records
// it.
func (h *Host) lost(ctx context.Context, parent string, child *loop.Child) (why string, err error) {
	session := child.Start.Session
	for _, kind := range []schemas.CommandKind{schemas.CommandSubagentPrompt, schemas.CommandSubagentAbort} {
		if held, err := h.o.Outbox.Holds(ctx, session, kind); held || err != nil {
			return "", err
		}
	}
	state, err := h.stateOf(ctx, session)
	if err != nil {
		return "", err
	}
	isOurs := state.Parent != nil && state.Parent.Link == child.Link(parent)
	if isOurs && !state.Parent.Reported {
		return "", nil
	}
	if held, err := h.o.Outbox.Holds(ctx, parent, schemas.CommandSubagentResult); held || err != nil {
		return "", err
	}
	if !isOurs {
		return textGone, nil
	}
	return textResultLost, nil
}
