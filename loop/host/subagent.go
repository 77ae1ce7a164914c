package host

import (
	"context"
	"fmt"
	"reflect"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// Texts that a parent is told, or a session that was told of a parent that it has not.
const (
	textNoParent    = "session %s has not begun a sub-agent here"
	textTooLate     = "The sub-agent was told to stop before it began"
	textBegun       = "The session of the sub-agent has begun already"
	textUnprocessed = "The sub-agent could not be begun: "
)

// subagentPrompt begins a sub-agent, if the log of its parent bears that out: no other prompt may say whose child a
// session is, or have it send anything to another one. A refusal is the answer that the parent waits for; it is sent
// before the command is settled, so that whoever has it next sends it again.
func (h *Host) subagentPrompt(ctx context.Context, c schemas.Command, d *schemas.SubagentPrompt, entered func()) error {
	known, begun, err := h.isSubagent(ctx, c.Session, d.Parent)
	if err != nil {
		return err
	}
	if known {
		return h.drive(ctx, c, entered)
	}
	child, err := h.childOf(ctx, c.Session, d.Parent)
	switch {
	case err != nil:
		return err
	case child == nil || child.Link(d.Parent.Session) != d.Parent ||
		!reflect.DeepEqual(child.Start.SubagentSettings, d.SubagentSettings):
		return h.rejectSubagent(ctx, c, schemas.RejectPermission, fmt.Sprintf(textNoParent, d.Parent.Session))
	case child.Abort != "":
		return h.refuseSubagent(ctx, c, d.Parent, schemas.RejectAborted, textTooLate)
	case begun:
		return h.refuseSubagent(ctx, c, d.Parent, schemas.RejectState, textBegun)
	}
	return h.drive(ctx, c, entered)
}

// subagentAbort aborts a sub-agent. What never was one is answered for: the abort has overtaken its prompt, or its
// session was deleted.
func (h *Host) subagentAbort(ctx context.Context, c schemas.Command, d *schemas.SubagentAbort, entered func()) error {
	known, _, err := h.isSubagent(ctx, c.Session, d.Parent)
	if err != nil {
		return err
	}
	if known {
		return h.drive(ctx, c, entered)
	}
	child, err := h.childOf(ctx, c.Session, d.Parent)
	switch {
	case err != nil:
		return err
	case child == nil:
		return h.rejectSubagent(ctx, c, schemas.RejectNotFound, fmt.Sprintf(textNoParent, d.Parent.Session))
	}
	return h.refuseSubagent(ctx, c, d.Parent, schemas.RejectAborted, textTooLate)
}

// unprocessed tells the parent of a prompt that nobody could process. One that is in the log has a run, or will have.
func (h *Host) unprocessed(ctx context.Context, session string, r schemas.CommandRejected) error {
	link, ok := schemas.SubagentOf(r.CommandID)
	if r.Kind != schemas.CommandSubagentPrompt || !ok {
		return nil
	}
	var known bool
	err := h.with(ctx, session, alone, func(d *driver.Driver) error {
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

// isSubagent reports whether a session is the child that a link names, and whether it can become none any more.
func (h *Host) isSubagent(ctx context.Context, session string, link schemas.SubagentLink) (
	known, begun bool, err error,
) {
	err = h.with(ctx, session, alone, func(d *driver.Driver) error {
		d.View(func(s *loop.State) {
			known = s.Parent != nil && s.Parent.Link == link
			begun = s.Parent != nil || !s.Branchable()
		})
		return nil
	})
	return known, begun, err
}

// childOf returns what the log of a parent has of a child, nil where the child is not open there.
func (h *Host) childOf(ctx context.Context, session string, link schemas.SubagentLink) (*loop.Child, error) {
	if link.Session == session {
		return nil, nil
	}
	log, err := h.o.Open(ctx, link.Session)
	if err != nil {
		return nil, fmt.Errorf("session %s, whose parent is %s: %w", session, link.Session, err)
	}
	defer log.Close()
	state, _, err := h.read(ctx, log, link.Session, 0)
	if err != nil {
		return nil, fmt.Errorf("session %s, whose parent is %s: %w", session, link.Session, err)
	}
	if !state.Answers(&schemas.SubagentResult{Call: link.Call, Nonce: link.Nonce, Session: session}) {
		return nil, nil
	}
	return state.Child(link.Call), nil
}

// refuseSubagent answers the parent, and then settles the command.
func (h *Host) refuseSubagent(
	ctx context.Context, c schemas.Command, link schemas.SubagentLink, code schemas.RejectCode, text string,
) error {
	if err := h.answer(ctx, c.Session, link, text); err != nil {
		return err
	}
	return h.rejectSubagent(ctx, c, code, text)
}

func (h *Host) rejectSubagent(ctx context.Context, c schemas.Command, code schemas.RejectCode, text string) error {
	return h.reject(ctx, c.Session, schemas.CommandRejected{
		CommandID: c.ID, Kind: c.Data.CommandKind(), Code: code, Reason: text,
	})
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
