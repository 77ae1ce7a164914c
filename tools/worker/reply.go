package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// listenTimeout is how long a caller may take to confirm that it still waits for an answer.
const listenTimeout = time.Second

// spreadTime is how long a cluster may take to tell all its servers of a subscription.
const spreadTime = 500 * time.Millisecond

// abandoned reports whether the caller of a request with a replyTo has stopped waiting for the answer. A caller with a
// subject below agent.reply subscribes to it as long as it lives, and replies to a message without payload. If the
// replyTo is the inbox of a NATS client, abandoned sends no message, because the client would take it for the answer.
// In a cluster the call may come before the worker's server knows of the subscription, so abandoned asks twice.
func (w *Worker) abandoned(req schemas.ToolRequest) bool {
	if !w.opts.Subjects.IsReply(req.ReplyTo) {
		return false
	}
	for again := true; ; again = false {
		_, err := w.opts.NC.Request(req.ReplyTo, nil, listenTimeout)
		if !errors.Is(err, nats.ErrNoResponders) || !again {
			return errors.Is(err, nats.ErrNoResponders)
		}
		time.Sleep(spreadTime)
	}
}

// reply sends an answer to a caller that is not a session. No stream stores the answer: only a caller that still waits
// needs it.
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
