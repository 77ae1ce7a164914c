package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/headerlimit"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
)

// handler implements [reader.Handler] on the inbox's [Handler]: it decodes messages, rejects those that are no
// commands, and sends outcomes to senders.
type handler struct{ *Inbox }

func (h handler) Owns(ctx context.Context, session string) error { return h.handler.Owns(ctx, session) }

func (h handler) Attempt(ctx context.Context, seq uint64) (lost int, end func()) {
	return h.attempts.begin(ctx, seq)
}

func (h handler) Void(ctx context.Context, m *reader.Message) bool {
	_, kind, err := h.conn.Subjects().ParseCommand(m.Body.(*body).subject)
	if err != nil || kind != schemas.CommandToolResult || !h.handler.Absent(ctx, m.Session) {
		return false
	}
	h.metrics.count("void")
	return true
}

func (h handler) Deliver(ctx context.Context, m *reader.Message, entered func()) error {
	id, err := h.deliver(ctx, m, entered)
	if reason := new(codec.RejectError); errors.As(err, &reason) {
		return h.reject(ctx, m, id, reason)
	}
	return err
}

func (h handler) GiveUp(ctx context.Context, m *reader.Message, reason string) error {
	b := m.Body.(*body)
	if b.dropped {
		_ = queue(h).Refetch(ctx, m) // the dead letter needs the payload
	}
	if b.dropped {
		return errDropped
	}
	if foreign := b.foreign(); foreign != "" {
		return h.reject(ctx, m, "", &codec.RejectError{Code: schemas.RejectForeign, Reason: foreign})
	}
	defer b.done()
	id := ""
	if cmd, err := h.decode(ctx, m); err == nil {
		id = cmd.ID // the log may know it
	}
	return h.reject(ctx, m, id, &codec.RejectError{Code: schemas.RejectDelivery, Reason: reason})
}

// Refuse makes a dead letter of a message. The session's log does not have it: the session may have no memory to be
// loaded.
func (h handler) Refuse(ctx context.Context, m *reader.Message, reason string) error {
	b := m.Body.(*body)
	if b.dropped && queue(h).Refetch(ctx, m) {
		return nil // it was deleted
	}
	if b.dropped {
		return errDropped
	}
	defer b.done()
	ctx, cancel := context.WithTimeout(ctx, h.o.RejectTimeout)
	defer cancel()
	if err := h.bury(ctx, m.Session, m.Seq, b.letter(), reason); err != nil {
		return err
	}
	h.o.Logger.Warn("command refused", "session", m.Session, "seq", m.Seq, "why", reason)
	return nil
}

// deliver returns the id of the command, or "" if the message is no command.
func (in *Inbox) deliver(ctx context.Context, m *reader.Message, entered func()) (id string, err error) {
	b := m.Body.(*body)
	defer b.done()
	if b.large {
		var release func()
		if ctx, release, err = in.hold(ctx, m); err != nil || b.dropped {
			return "", err
		}
		defer release()
	}
	cmd, err := in.decode(ctx, m)
	if err != nil {
		return "", err
	}
	cmd.InboxPosition = in.position(m)
	cmd.Anonymous = cmd.ID == in.storedID(m) && b.header.Get(schemas.HeaderReply) == ""
	if b.large {
		b.decoded()
	}
	var replying sync.WaitGroup
	defer replying.Wait()
	reply := sync.OnceFunc(func() { in.reply(m, cmd.ID) })
	err = in.handler.Deliver(ctx, cmd, func() {
		b.done()
		if b.large {
			dropContent(cmd.Data)
		}
		entered()
		replying.Go(reply)
	})
	if err == nil {
		reply()
	}
	return cmd.ID, err
}

// decode returns the command of a message. Its error wraps a [*codec.RejectError] if the message is no command. Any
// other error means that the message, or data that it refers to, cannot be read now.
func (in *Inbox) decode(ctx context.Context, m *reader.Message) (schemas.Command, error) {
	reject := func(code schemas.RejectCode, format string, args ...any) (schemas.Command, error) {
		return schemas.Command{}, &codec.RejectError{Code: code, Reason: fmt.Sprintf(format, args...)}
	}
	b := m.Body.(*body)
	switch size, foreign := len(b.data), b.foreign(); {
	case b.dropped:
		return schemas.Command{}, errDropped
	case foreign != "": // before all else, because any other rejection is recorded in the session's log
		return reject(schemas.RejectForeign, "%s", foreign)
	case headerlimit.LeftOut(b.header):
		return reject(schemas.RejectInvalid, "it has more than %d headers, or %d bytes of them", headerlimit.Most,
			headerlimit.MostBytes)
	case size > schemas.MaxCommandBytes && codec.IsForeign(b.header, b.data):
		return reject(schemas.RejectForeign, "it is an answer of a NATS server of %d bytes", size)
	case size > schemas.MaxCommandBytes:
		return reject(schemas.RejectTooLarge, "the payload has %d bytes, more than %d", size, schemas.MaxCommandBytes)
	}
	if _, err := replyTo(b.header); err != nil {
		return schemas.Command{}, err
	}
	session, kind, err := in.conn.Subjects().ParseCommand(b.subject)
	if err != nil {
		return reject(schemas.RejectInvalid, "%v", err)
	}
	header, data, err := in.resolveInput(ctx, kind, b)
	if err != nil {
		return schemas.Command{}, err
	}
	return codec.DecodeCommand(session, kind, header, data, in.storedID(m), b.stored)
}

// storedID returns the id of a command without an id of its own.
func (in *Inbox) storedID(m *reader.Message) string {
	return codec.StoredID(*in.name.Load(), m.Seq, m.Body.(*body).stored)
}

func (in *Inbox) position(m *reader.Message) schemas.InboxPosition {
	return schemas.InboxPosition{Inbox: *in.name.Load(), StreamSeq: m.Seq}
}

// reject records the rejection in the session's log, if the session id is legal, and keeps the message in AGENT_DEAD.
// id is the command's id, or "" if the message is no command.
func (in *Inbox) reject(ctx context.Context, m *reader.Message, id string, why *codec.RejectError) error {
	ctx, cancel := context.WithTimeout(ctx, in.o.RejectTimeout)
	defer cancel()
	b := m.Body.(*body)
	session, kind, err := in.conn.Subjects().ParseCommand(b.subject)
	if err == nil && recorded(kind, why.Code) {
		id = cmp.Or(id, codec.CommandID(kind, b.header, in.storedID(m)))
		r := schemas.CommandRejected{CommandID: id, Kind: shortKind(kind), Code: why.Code, Reason: why.Reason,
			InboxPosition: in.position(m)}
		if err := in.handler.Reject(ctx, session, r); err != nil {
			return fmt.Errorf("inbox: reject %s %s of session %s (%s): %w", shortKind(kind), id, session, why.Code, err)
		}
		in.reply(m, id)
	}
	if err := in.bury(ctx, session, m.Seq, b.letter(), why.Error()); err != nil {
		return err
	}
	m.Rejected = true
	in.o.Logger.Info("command rejected", "session", session, "kind", shortKind(kind), "seq", m.Seq, "code", why.Code)
	if why.Code == schemas.RejectForeign {
		in.metrics.count("foreign")
	} else {
		in.metrics.count("rejected")
	}
	return nil
}

// recorded reports whether a rejection is recorded in the session's log. A foreign message, which no client has sent,
// is not: no sender waits for its outcome, and whoever made a server send it must not write into the session's log. The
// same holds for a message that is no result: a toolworker may send results to every session, and a session remembers
// only so many commands.
func recorded(kind schemas.CommandKind, code schemas.RejectCode) bool {
	return code != schemas.RejectForeign && (kind != schemas.CommandToolResult || code == schemas.RejectDelivery)
}

// letter returns what a dead letter has of a message.
func (b *body) letter() *body {
	letter := *b
	if len(b.data) > schemas.MaxCommandBytes {
		letter.keep = keepTooLarge
	}
	return &letter
}

// bury stores a message as a dead letter.
func (in *Inbox) bury(ctx context.Context, session string, seq uint64, b *body, reason string) error {
	return pubsub.PublishDead(ctx, in.conn.JetStream(), in.conn.Subjects(), pubsub.Dead{
		Session: session, Stream: schemas.StreamCommands, StreamSeq: seq, Subject: b.subject, Deliveries: 1,
		Reason: reason, Header: b.header, Data: b.data, Keep: b.keep,
	})
}

// maxKind bounds how much of an unknown kind is repeated to its session.
const maxKind = 64

func shortKind(kind schemas.CommandKind) schemas.CommandKind {
	if len(kind) <= maxKind {
		return kind
	}
	return schemas.CommandKind(strings.ToValidUTF8(string(kind[:maxKind]), "")) + "…"
}
