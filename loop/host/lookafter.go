package host

import (
	"context"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// A parent at rest learns of its sub-agents by their results alone. One whose session was deleted, or whose result was
// given up, sends none. So a session that waits for sub-agents has a timer, and when that is due its runner looks at
// their logs (decision 129).

// Texts of results of sub-agents that will send none.
const (
	textGone       = "The session of the sub-agent is gone: it was deleted"
	textResultLost = "The result of the sub-agent was lost on its way; what it did is in the log of its session"
)

// lookAgain sets the timer of a session that has sub-agents at work, and takes it back where it has none any more.
// A process sets it anew: it cannot know what the one before did.
func (h *Host) lookAgain(ctx context.Context, e *entry) {
	if h.o.Timers == nil || h.o.Outbox == nil {
		return
	}
	open := 0
	e.driver.View(func(s *loop.State) { open = len(s.Children) })
	now := h.o.Clock.Now()
	at := now.Add(h.o.SubagentCheck)
	h.mu.Lock()
	was := e.lookAt
	set := open > 0 && !now.Before(was) // also where there is none
	switch {
	case set:
		e.lookAt = at
	case open == 0:
		e.lookAt = time.Time{}
	}
	h.mu.Unlock()
	switch {
	case set: // a delivery that comes meanwhile need not wait: this one is not settled before the timer is set
		err := h.o.Timers.Schedule(ctx, e.session, at, schemas.Timer{Name: schemas.TimerSubagents})
		if err != nil {
			h.o.Logger.Warn("timer of sub-agents not set", "session", e.session, "err", err)
			h.mu.Lock()
			e.lookAt = was // the next delivery tries again
			h.mu.Unlock()
		}
	case open == 0 && !was.IsZero():
		if err := h.o.Timers.Cancel(ctx, e.session, schemas.TimerSubagents); err != nil { // it will change nothing
			h.o.Logger.Debug("timer of sub-agents not taken back", "session", e.session, "err", err)
		}
	}
}

// lookAfter answers for the sub-agents of a session that will send no result. While the session is awake it does
// nothing: a prompt may not be out yet. The timer is set again.
func (h *Host) lookAfter(ctx context.Context, c schemas.Command, entered func()) error {
	if err := h.drive(ctx, c, entered); err != nil || h.o.Outbox == nil {
		return err
	}
	return h.with(ctx, c.Session, alone, func(d *driver.Driver) error {
		if !d.Resting() {
			return nil
		}
		var children []loop.Child
		d.View(func(s *loop.State) { children = append(children, s.Children...) })
		for _, child := range children {
			text, err := h.lost(ctx, c.Session, &child)
			if err != nil {
				return fmt.Errorf("session %s: look after its sub-agent %s: %w", c.Session, child.Start.Session, err)
			}
			if text == "" {
				continue
			}
			r := lostResult(c.Session, &child, text)
			h.o.Logger.Warn("a sub-agent is lost", "session", c.Session, "subagent", child.Start.Session, "reason", text)
			if err := d.Handle(ctx, r, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// lostResult is the result of a sub-agent that sends none. One that comes all the same changes nothing then.
func lostResult(parent string, child *loop.Child, text string) schemas.Command {
	link := child.Link(parent)
	return schemas.Command{ID: link.ResultID(), Session: parent, Data: &schemas.SubagentResult{
		Call: link.Call, Nonce: link.Nonce, Session: child.Start.Session, Text: text, IsError: true,
	}}
}

// lost says why a sub-agent that its parent's state has at work will not answer, "" where it will. The order of the
// questions matters: a command is settled once the log has it, and a result is stored before the log says so.
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
