package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
)

// handler is the runner's [Handler] as a [reader.Reader] needs it: it decodes messages, rejects what is no command, and
// answers senders.
type handler struct{ *Inbox }

// errUnasked is the answer for a [Handler] that is no [Owner].
var errUnasked = errors.New("inbox: nobody knows whether the session is still this runner's")

func (h handler) Owns(ctx context.Context, session string) error {
	if owner, ok := h.handler.(Owner); ok {
		return owner.Owns(ctx, session)
	}
	return errUnasked
}

func (h handler) Attempt(ctx context.Context, seq uint64) (lost int, end func()) {
	return h.attempts.begin(ctx, seq)
}

func (h handler) Deliver(ctx context.Context, m *reader.Message, entered func()) error {
	err := h.deliver(ctx, m, entered)
	if reason := new(codec.RejectError); errors.As(err, &reason) {
		return h.reject(ctx, m, reason)
	}
	return err
}

func (h handler) GiveUp(ctx context.Context, m *reader.Message, reason string) error {
	if m.Body.(*body).lacks {
		return errNotRead
	}
	return h.reject(ctx, m, &codec.RejectError{Code: schemas.RejectDelivery, Reason: reason})
}

func (in *Inbox) deliver(ctx context.Context, m *reader.Message, entered func()) error {
	cmd, err := in.decode(ctx, m)
	if err != nil {
		return err
	}
	var replying sync.WaitGroup
	defer replying.Wait()
	reply := sync.OnceFunc(func() { in.reply(ctx, m, cmd.ID) })
	err = in.handler.Deliver(ctx, cmd, func() {
		entered()
		replying.Go(reply)
	})
	if err == nil {
		reply()
	}
	return err
}

// decode returns the command, or an error whose *codec.RejectError says why it is none. Another error is about data
// that the command refers to and that cannot be read now.
func (in *Inbox) decode(ctx context.Context, m *reader.Message) (schemas.Command, error) {
	b := m.Body.(*body)
	if b.lacks {
		return schemas.Command{}, errNotRead
	}
	if b.garbled { // what a server has added to it may be in there
		return schemas.Command{}, &codec.RejectError{Code: schemas.RejectForeign, Reason: "its header cannot be read"}
	}
	if size := len(b.data); size > maxCommandBytes {
		return schemas.Command{}, &codec.RejectError{Code: schemas.RejectTooLarge,
			Reason: fmt.Sprintf("the payload has %d bytes, more than %d", size, maxCommandBytes)}
	}
	if _, err := replyTo(b.header); err != nil {
		return schemas.Command{}, err
	}
	if name := b.header.Get(jetstream.StreamHeader); name != "" { // a consumer adds none
		return schemas.Command{}, &codec.RejectError{Code: schemas.RejectForeign,
			Reason: fmt.Sprintf("it is a message that the stream %.40q had", name)}
	}
	session, kind, err := in.conn.Subjects().ParseCommand(b.subject)
	if err != nil {
		return schemas.Command{}, &codec.RejectError{Code: schemas.RejectInvalid, Reason: err.Error()}
	}
	header, data, err := in.referred(ctx, kind, b.header, b.data)
	if err != nil {
		return schemas.Command{}, err
	}
	return codec.DecodeCommand(session, kind, header, data, codec.StoredID(m.Seq), b.stored)
}

// reject tells the session, if it has a legal id, and keeps a copy in AGENT_DEAD. Of what is no client's the session is
// not told: it has no sender who waits for an answer, and whoever had it sent must not write into the session's log.
func (in *Inbox) reject(ctx context.Context, m *reader.Message, why *codec.RejectError) error {
	ctx, cancel := context.WithTimeout(ctx, in.o.RejectTimeout)
	defer cancel()
	b := m.Body.(*body)
	session, kind, err := in.conn.Subjects().ParseCommand(b.subject)
	if err == nil && why.Code != schemas.RejectForeign {
		id := codec.CommandID(b.header, m.Seq)
		if cmd, err := in.decode(ctx, m); err == nil {
			id = cmd.ID // a command that was given up: the log may know it
		}
		r := schemas.CommandRejected{CommandID: id, Kind: shortKind(kind), Code: why.Code, Reason: why.Reason,
			StreamSeq: m.Seq}
		if err := in.handler.Reject(ctx, session, r); err != nil {
			return fmt.Errorf("inbox: reject %s %s of session %s (%s): %w", shortKind(kind), id, session, why.Code, err)
		}
		in.reply(ctx, m, id)
	}
	if err := in.bury(ctx, session, m.Seq, b, why.Error()); err != nil {
		return err
	}
	in.o.Logger.Info("command rejected", "session", session, "kind", shortKind(kind), "seq", m.Seq, "code", why.Code)
	if why.Code == schemas.RejectForeign {
		in.metrics.count("foreign")
	} else {
		in.metrics.count("rejected")
	}
	return nil
}

// bury keeps a message as a dead letter.
func (in *Inbox) bury(ctx context.Context, session string, seq uint64, b *body, reason string) error {
	return pubsub.PublishDead(ctx, in.conn.JetStream(), in.conn.Subjects(), pubsub.Dead{
		Session: session, Stream: schemas.StreamCommands, StreamSeq: seq, Subject: b.subject, Deliveries: 1,
		Reason: reason, Header: b.header, Data: b.data,
	})
}

// maxKind is how much of an unknown kind is repeated to its session.
const maxKind = 64

func shortKind(kind schemas.CommandKind) schemas.CommandKind {
	if len(kind) <= maxKind {
		return kind
	}
	return schemas.CommandKind(strings.ToValidUTF8(string(kind[:maxKind]), "")) + "…"
}
