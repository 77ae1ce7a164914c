package inbox

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

// outcomeTimeout bounds the search for the outcome of a command. Its sender can query it later.
const outcomeTimeout = 5 * time.Second

// replyTo returns the inbox to which the sender of a message wants its outcome sent, "" if it does not request one. The
// inbox is in a header, because the stream answers at the reply subject and does not store it. The error is a
// *codec.RejectError: a reply goes to inboxes only, so that no client makes a runner publish where the client may not.
func replyTo(h nats.Header) (inbox string, err error) {
	wants, inbox := h.Get(schemas.HeaderReply), h.Get(schemas.HeaderReplyTo)
	switch {
	case wants == "" && inbox == "":
		return "", nil
	case wants != schemas.ReplyOutcome:
		return "", &codec.RejectError{Code: schemas.RejectInvalid,
			Reason: "the header " + schemas.HeaderReply + " is not " + schemas.ReplyOutcome}
	case !schemas.IsInbox(inbox):
		return "", &codec.RejectError{Code: schemas.RejectInvalid,
			Reason: "the header " + schemas.HeaderReplyTo + " names no inbox"}
	}
	return inbox, nil
}

// reply sends the outcome of a command that is in the log to a sender that has requested it. It does so before the
// command is acknowledged, on the same connection: if this runner is lost before, the command is redelivered, and the
// next runner replies.
func (in *Inbox) reply(ctx context.Context, m *reader.Message, command string) {
	to, err := replyTo(m.Body.(*body).header)
	if err != nil || to == "" || in.o.Outcome == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeTimeout)
	defer cancel()
	e, found, err := in.o.Outcome(ctx, m.Session, command)
	if err == nil && found {
		err = in.sendOutcome(to, e)
	}
	if err != nil || !found {
		in.o.Logger.Warn("outcome not sent to the sender of a command", "session", m.Session, "seq", m.Seq, "found", found,
			"err", err)
	}
}

func (in *Inbox) sendOutcome(to string, e schemas.Event) error {
	event, err := schemas.NewQueriedEvent(e)
	if err != nil {
		return err
	}
	data, err := schemas.Marshal(event)
	if err != nil {
		return err
	}
	return in.conn.NATS().PublishMsg(&nats.Msg{Subject: to, Data: data,
		Header: nats.Header{schemas.HeaderContentType: {schemas.ContentEvent}}})
}
