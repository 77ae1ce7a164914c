package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

const (
	maxDeliveries = 10   // the delivery whose failure is the last
	maxDeadReason = 1024 // bytes
)

// deadLetters is the middleware that gives up a call which cannot even be answered: at its last delivery it is kept in AGENT_DEAD,
// and then acknowledged. One that cannot be kept stays in its queue.
func (w *Worker) deadLetters(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		out, err := next(msg)
		if err == nil || w.answers.Err() != nil { // cut off by our own stopping: no fault of the call
			return out, err
		}
		raw, _ := rawOf(msg)
		md, unknown := raw.Metadata()
		if unknown != nil || md.NumDelivered < maxDeliveries {
			return nil, err
		}
		if lost := w.bury(raw, md, err); lost != nil {
			return nil, errors.Join(err, lost)
		}
		w.opts.Logger.Warn("tool call given up", "stream", md.Stream, "seq", md.Sequence.Stream, "deliveries", md.NumDelivered, "err", err)
		return nil, nil
	}
}

func (w *Worker) bury(raw jetstream.Msg, md *jetstream.MsgMetadata, cause error) error {
	session := schemas.NoSession
	if _, s, _, _ := w.opts.Subjects.ParseTool(raw.Subject()); schemas.CheckSession(s) == nil {
		session = s
	}
	letter := &nats.Msg{Subject: w.opts.Subjects.Dead(md.Stream, session), Data: raw.Data(), Header: nats.Header{}}
	for name, values := range raw.Headers() {
		if !strings.HasPrefix(name, "Nats-") { // instructions to the server
			letter.Header[name] = values
		}
	}
	reason := strings.ToValidUTF8(strings.Join(strings.Fields(cause.Error()), " "), "?")
	for name, value := range map[string]string{
		schemas.HeaderDeadReason:     strings.ToValidUTF8(reason[:min(len(reason), maxDeadReason)], ""),
		schemas.HeaderDeadStream:     md.Stream,
		schemas.HeaderDeadStreamSeq:  strconv.FormatUint(md.Sequence.Stream, 10),
		schemas.HeaderDeadSubject:    raw.Subject(),
		schemas.HeaderDeadDeliveries: strconv.FormatUint(md.NumDelivered, 10),
		schemas.HeaderDeadMsgID:      raw.Headers().Get(jetstream.MsgIDHeader),
	} {
		if value != "" {
			letter.Header[name] = []string{value}
		}
	}
	if over := letter.Size() - int(w.opts.NC.MaxPayload()); over > 0 { // it was as large as a message may be
		letter.Header[schemas.HeaderDeadSize] = []string{strconv.Itoa(len(letter.Data))}
		letter.Data = letter.Data[:max(len(letter.Data)-over-headerRoom, 0)]
	}
	ctx, cancel := context.WithTimeout(w.answers, publishTimeout)
	defer cancel()
	id := fmt.Sprintf("%s:%d", md.Stream, md.Sequence.Stream)
	if _, err := w.opts.JS.PublishMsg(ctx, letter, jetstream.WithMsgID(id)); err != nil {
		return fmt.Errorf("worker: keep %s sequence %d, session %s: %w", md.Stream, md.Sequence.Stream, session, err)
	}
	return nil
}
