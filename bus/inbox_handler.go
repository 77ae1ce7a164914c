package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/loopbus/loopbus/schemas"
)

// inboxHandler is what the Router does with a message: decode it, wait for its turn, and deliver or reject it.
type inboxHandler struct {
	conn   *Conn
	opts   InboxOptions
	next   Handler
	refuse func(*message.Message, *RejectError) error
}

// errTooOften gives up a message that came too often without an answer: it may be what kills its runners.
var errTooOften = errors.New("delivered too often without an answer")

func newInboxHandler(c *Conn, o InboxOptions, next Handler) *inboxHandler {
	h := &inboxHandler{conn: c, opts: o, next: next}
	timeout := middleware.Timeout(o.RejectTimeout)
	h.refuse = func(m *message.Message, reason *RejectError) error {
		_, err := timeout(func(m *message.Message) ([]*message.Message, error) {
			return nil, h.reject(m.Context(), deliveryOf(m), reason)
		})(m)
		return err
	}
	return h
}

func (h *inboxHandler) handle(m *message.Message) error {
	d := deliveryOf(m)
	if d == nil {
		return errors.New("bus: not a message of the inbox")
	}
	cmd, decodeErr := h.decode(d)
	if err := d.place.wait(m.Context(), d.partition.over); err != nil {
		return err
	}
	if isClosed(d.partition.over) {
		return errGivenBack
	}
	var reason *RejectError
	if errors.As(decodeErr, &reason) {
		return h.refuse(m, reason)
	}
	if decodeErr != nil {
		return decodeErr
	}
	if err := h.next.Deliver(m.Context(), cmd, func() { d.place.leave(0) }); err != nil {
		return fmt.Errorf("bus: deliver %s %s to session %s: %w", cmd.Data.CommandKind(), cmd.ID, cmd.Session, err)
	}
	return nil
}

// decode returns the command, or an error whose *RejectError says why it is none.
func (h *inboxHandler) decode(d *delivery) (schemas.Command, error) {
	if size := len(d.raw.Data()); size > h.opts.MaxCommandBytes {
		return schemas.Command{}, &RejectError{Code: schemas.RejectTooLarge,
			Reason: fmt.Sprintf("the payload has %d bytes, more than %d", size, h.opts.MaxCommandBytes)}
	}
	session, kind, err := h.conn.subjects.ParseCommand(d.raw.Subject())
	if err != nil {
		return schemas.Command{}, &RejectError{Code: schemas.RejectInvalid, Reason: err.Error()}
	}
	return DecodeCommand(session, kind, d.raw.Headers(), d.raw.Data(), d.id(), d.stored)
}

// reject tells the session, if it has a legal id, and keeps a copy in AGENT_DEAD.
func (h *inboxHandler) reject(ctx context.Context, d *delivery, why *RejectError) error {
	session, kind, err := h.conn.subjects.ParseCommand(d.raw.Subject())
	if err == nil {
		id := d.commandID()
		if cmd, err := h.decode(d); err == nil {
			id = cmd.ID // a command that was given up: the log may know it
		}
		r := schemas.CommandRejected{CommandID: id, Kind: kind, Code: why.Code, Reason: why.Reason, StreamSeq: d.seq}
		if err := h.next.Reject(ctx, session, r); err != nil {
			return fmt.Errorf("bus: reject %s %s of session %s (%s): %w", kind, d.id(), session, why.Code, err)
		}
	}
	if err := PublishDead(ctx, h.conn, NewDead(session, d.raw, why.Code+": "+why.Reason)); err != nil {
		return err
	}
	h.opts.Logger.Info("command rejected", "session", session, "kind", kind, "seq", d.seq, "code", why.Code)
	return nil
}

// giveUp is the middleware that rejects a message at the failure of its last delivery. What fails while its partition
// is being left goes to the next reader instead.
func (h *inboxHandler) giveUp(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		d := deliveryOf(m)
		err := errTooOften
		if d == nil || d.count <= uint64(h.opts.MaxDeliver) {
			_, err = next(m)
		}
		if err == nil || d == nil || d.count < uint64(h.opts.MaxDeliver) || isClosed(d.partition.over) {
			return nil, err
		}
		reason := &RejectError{Code: schemas.RejectDelivery,
			Reason: fmt.Sprintf("given up after %d deliveries: %v", d.count, rootOf(err))}
		return nil, h.refuse(m, reason)
	}
}

// passOn is the middleware that gives a message back without ado if it is for another runner to deal with, or for this one
// when it starts again. That is no failure, and who has lost a session says so himself.
func (h *inboxHandler) passOn(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		_, err := next(m)
		d := deliveryOf(m)
		if replaced := d != nil && d.gone(); !replaced && !isForAnother(err) {
			return nil, err
		}
		if d != nil {
			d.giveBack(err)
			h.opts.Logger.Debug("command given back", "seq", d.seq, "err", err)
		}
		m.Nack()
		return nil, nil
	}
}

// isForAnother reports whether an error says that another runner is to deal with the message, or this one later.
func isForAnother(err error) bool {
	return errors.Is(err, errGivenBack) || errors.Is(err, schemas.ErrConflict) || errors.Is(err, context.Canceled)
}

// rootOf leaves the stack of a panic out of what the session is told.
func rootOf(err error) error {
	var panicked middleware.RecoveredPanicError
	if errors.As(err, &panicked) {
		return fmt.Errorf("panic: %v", panicked.V)
	}
	return err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
