package host

import (
	"context"
	"fmt"
	"reflect"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// Texts for a parent, or for the session of a command that names a parent wrongly.
const (
	textNoParent    = "session %s has not begun a sub-agent here"
	textTooLate     = "The sub-agent was told to stop before it began"
	textBegun       = "The session of the sub-agent has begun already"
	textUnprocessed = "The sub-agent could not be begun: "
)

// A refusal is the reason why a command of a parent does nothing to its sub-agent. A parent that has the sub-agent open
// waits for an answer. The answer is sent before the command is settled, so that the next delivery sends it again.
type refusal struct {
	code   schemas.RejectCode
	text   string
	answer bool // the parent waits for an answer
}

// fromParent delivers a command that names a parent to the session, if that is the parent's sub-agent by its own log.
// Otherwise refuse decides. It gets what the parent's log has of the child, nil if the child is not open there, and
// whether the session has begun as something else.
func (h *Host) fromParent(ctx context.Context, c schemas.Command, link schemas.SubagentLink, entered func(),
	refuse func(child *loop.Child, begun bool) *refusal,
) error {
	known, begun, err := h.isSubagent(ctx, c.Session, link)
	if err != nil {
		return err
	}
	if !known {
		child, err := h.childOf(ctx, c.Session, link)
		if err != nil {
			return err
		}
		if r := refuse(child, begun); r != nil {
			if known, err = h.refuseSubagent(ctx, c, link, *r); err != nil || !known {
				return err
			}
		}
	}
	return h.drive(ctx, c, entered)
}

// subagentPrompt begins a sub-agent if the parent's log confirms the prompt: otherwise any client could make a session
// the child of another one, or have it send results to another one.
func (h *Host) subagentPrompt(ctx context.Context, c schemas.Command, d *schemas.SubagentPrompt, entered func()) error {
	return h.fromParent(ctx, c, d.Parent, entered, func(child *loop.Child, begun bool) *refusal {
		switch {
		case child == nil || child.Link(d.Parent.Session) != d.Parent ||
			!reflect.DeepEqual(child.Start.SubagentSettings, d.SubagentSettings):
			return &refusal{schemas.RejectPermission, fmt.Sprintf(textNoParent, d.Parent.Session), false}
		case child.Abort != "":
			return &refusal{schemas.RejectAborted, textTooLate, true}
		case begun:
			return &refusal{schemas.RejectState, textBegun, true}
		}
		return nil
	})
}

// subagentAbort aborts a sub-agent. For a session that never was one it sends the answer: the abort has overtaken the
// prompt, or the session was deleted.
func (h *Host) subagentAbort(ctx context.Context, c schemas.Command, d *schemas.SubagentAbort, entered func()) error {
	return h.fromParent(ctx, c, d.Parent, entered, func(child *loop.Child, _ bool) *refusal {
		if child == nil {
			return &refusal{schemas.RejectNotFound, fmt.Sprintf(textNoParent, d.Parent.Session), false}
		}
		return &refusal{schemas.RejectAborted, textTooLate, true}
	})
}

// unprocessed reports to the parent a prompt that no runner could process. A prompt in the log has a run, or will get
// one.
func (h *Host) unprocessed(ctx context.Context, session string, r schemas.CommandRejected) error {
	link, ok := schemas.SubagentOf(r.CommandID)
	if r.Kind != schemas.CommandSubagentPrompt || !ok {
		return nil
	}
	var known bool
	err := h.with(ctx, session, nil, func(d *driver.Driver) error {
		d.View(func(s *loop.State) { known = s.Parent != nil })
		return nil
	})
	if err != nil || known {
		return err
	}
	child, err := h.childOf(ctx, session, link)
	if err != nil || child == nil {
		return err
	}
	return h.answer(ctx, session, link, textUnprocessed+r.Reason)
}

// isSubagent reports whether a session is the child that a link names, and whether it has begun, so that it cannot
// become a child.
func (h *Host) isSubagent(ctx context.Context, session string, link schemas.SubagentLink) (
	known, begun bool, err error,
) {
	err = h.with(ctx, session, nil, func(d *driver.Driver) error {
		d.View(func(s *loop.State) {
			known = s.Parent != nil && s.Parent.Link == link
			begun = s.Parent != nil || !s.Branchable()
		})
		return nil
	})
	return known, begun, err
}

// childOf returns the child that the log of a parent has, or nil if the child is not open there.
func (h *Host) childOf(ctx context.Context, session string, link schemas.SubagentLink) (*loop.Child, error) {
	if link.Session == session {
		return nil, nil
	}
	state, err := h.stateOf(ctx, link.Session)
	if err != nil {
		return nil, fmt.Errorf("session %s, whose parent is %s: %w", session, link.Session, err)
	}
	if !state.Answers(&schemas.SubagentResult{Call: link.Call, Nonce: link.Nonce, Session: session}) {
		return nil, nil
	}
	return state.Child(link.Call), nil
}

// stateOf folds the log of a session, which another process may own.
func (h *Host) stateOf(ctx context.Context, session string) (*loop.State, error) {
	log, err := h.o.Open(ctx, session)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	state, _, err := h.read(ctx, log, session, 0)
	return state, err
}

// refuseSubagent rejects a command of a parent, and then answers the parent, if it waits. Once the log of the sub-agent
// has the rejection no other runner begins the sub-agent by an older state: its parent would not count what it uses. If
// another runner has begun it in the meantime, refuseSubagent does nothing, and known is true.
func (h *Host) refuseSubagent(ctx context.Context, c schemas.Command, link schemas.SubagentLink, r refusal) (
	known bool, err error,
) {
	err = h.with(ctx, c.Session, nil, func(d *driver.Driver) error {
		d.View(func(s *loop.State) { known = s.Parent != nil && s.Parent.Link == link })
		if known {
			return nil
		}
		err := d.Reject(ctx, schemas.CommandRejected{
			CommandID: c.ID, Kind: c.Data.CommandKind(), Code: r.code, Reason: r.text,
			InboxPosition: c.InboxPosition,
		})
		if err != nil {
			return err
		}
		return d.Flush(ctx)
	})
	if err == nil && !known && r.answer {
		err = h.answer(ctx, c.Session, link, r.text)
	}
	return known, err
}

// answer sends a parent the result of a child that has not begun.
func (h *Host) answer(ctx context.Context, session string, link schemas.SubagentLink, text string) error {
	if h.o.Outbox == nil {
		return nil
	}
	r := &schemas.SubagentResult{Call: link.Call, Nonce: link.Nonce, Session: session, Text: text, IsError: true}
	err := h.o.Outbox.Store(ctx, schemas.Command{
		ID: r.ID(link.Session), Session: link.Session, Source: h.o.Source, Data: r,
	})
	if err != nil {
		return fmt.Errorf("session %s: answer its parent %s: %w", session, link.Session, err)
	}
	return nil
}
