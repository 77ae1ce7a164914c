package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// searchTimeout bounds the search for the outcome of a command. Its sender can query it later.
	searchTimeout = 5 * time.Second
	// maxSearches is how many outcomes are searched for at once, of which each session has a share.
	maxSearches = 64
)

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
// next runner replies. Only the outcome of a command that was repeated after others may come later.
func (in *Inbox) reply(m *reader.Message, command string) {
	to, err := replyTo(m.Body.(*body).header)
	if err != nil || to == "" || in.o.Outcome == nil {
		return
	}
	if e, found := in.o.Outcome(m.Session, command); !found {
		in.search(m.Session, m.Seq, command, to)
	} else if err := in.sendOutcome(to, e); err != nil {
		in.notSent(m.Session, m.Seq, err)
	}
}

// search sends an outcome that has to be searched for. It takes long where the log is long, so the session's other
// commands do not wait for it, and of many at once some are left out.
func (in *Inbox) search(session string, seq uint64, command, to string) {
	switch {
	case in.o.Search == nil:
		in.notSent(session, seq, errNotFound)
		return
	case !in.searches.Take(session, 1):
		in.notSent(session, seq, errManySearches)
		return
	}
	in.work.Go(func() {
		defer in.searches.Release(session, 1)
		ctx, cancel := context.WithTimeout(in.life, searchTimeout)
		defer cancel()
		e, found, err := in.o.Search(ctx, session, command)
		switch {
		case err == nil && found:
			err = in.sendOutcome(to, e)
		case err == nil:
			err = errNotFound
		}
		if err != nil {
			in.notSent(session, seq, err)
		}
	})
}

// Reasons why a sender gets no outcome.
var (
	errManySearches = errors.New("many outcomes of the session's older commands are searched for at once")
	errNotFound     = errors.New("no event about the command was found")
)

func (in *Inbox) notSent(session string, seq uint64, why error) {
	in.o.Logger.Warn("outcome not sent to the sender of a command", "session", session, "seq", seq, "err", why)
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
