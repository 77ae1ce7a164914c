package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// listenTimeout is how long a caller may take to say that it still waits for an answer.
const listenTimeout = time.Second

// abandoned reports whether nobody waits any more for the answer to a call of a caller that is no session. Such a
// caller listens at a subject below agent.reply as long as it lives, and answers a message without payload. Inboxes of
// other NATS clients are not asked: they would take the question for the answer.
func (w *Worker) abandoned(req schemas.ToolRequest) bool {
	if !w.opts.Subjects.IsReply(req.ReplyTo) {
		return false
	}
	_, err := w.opts.NC.Request(req.ReplyTo, nil, listenTimeout)
	return errors.Is(err, nats.ErrNoResponders)
}

// reply sends an answer to a caller that is no session. Nobody stores it: a caller that has left has no use for it.
func (a answerer) reply(answer *message.Message, to string) error {
	msg := &nats.Msg{Subject: to, Data: answer.Payload, Header: make(nats.Header, len(answer.Metadata))}
	for key, value := range answer.Metadata {
		msg.Header[key] = []string{value}
	}
	if err := a.opts.NC.PublishMsg(msg); err != nil {
		return fmt.Errorf("worker: send result to %s: %w", to, err)
	}
	return nil
}
