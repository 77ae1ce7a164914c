package worker

import (
	"fmt"
	"maps"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// subjectKey is the metadata that tells the answerer where an answer goes; replyKey is there instead if it goes to a
	// caller that is no session. They are not sent.
	subjectKey = "subject"
	replyKey   = "reply"

	headerRoom      = 4 << 10 // of a message's largest size, for its headers
	publishTimeout  = 5 * time.Second
	firstRetryDelay = 50 * time.Millisecond
	lastRetryDelay  = 5 * time.Second
)

// answer makes the message that answers a call.
func (h toolHandler) answer(call *message.Message, req schemas.ToolRequest, result schemas.ToolResult, isError bool,
	took time.Duration,
) ([]*message.Message, error) {
	payload, err := fit(req.Answer(h.opts.ID, result, isError, took), h.room())
	if err == nil {
		if _, _, refused := schemas.ParseCommand(schemas.CommandToolResult, payload); refused != nil {
			// The session would refuse it, and wait for another one for ever.
			text := "The result of this call cannot be passed on: " + refused.Error()
			payload, err = fit(req.Answer(h.opts.ID, schemas.ErrorResult(text), true, took), h.room())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("worker: answer call %s of session %s: %w", req.Call, req.Session, err)
	}
	answer := message.NewMessage(req.AnswerMsgID(), payload)
	if req.ReplyTo != "" {
		answer.Metadata[replyKey] = req.ReplyTo
	} else {
		answer.Metadata[subjectKey] = h.opts.Subjects.Command(req.Session, schemas.CommandToolResult)
	}
	if trace := req.TraceParent; trace != "" {
		answer.Metadata[schemas.HeaderTraceParent] = schemas.EncodeHeaderValue(trace)
	}
	return []*message.Message{answer}, nil
}

// room is the most bytes an answer of the tool may have.
func (h toolHandler) room() int {
	room := min(h.opts.MaxResultBytes, int(h.opts.NC.MaxPayload())-headerRoom)
	if own := h.tool.MaxResultBytes; own > 0 {
		room = int(min(int64(room), own))
	}
	return room
}

// answerer is the Watermill publisher of answers. It knows where each goes, so the router's topic does not matter.
type answerer struct {
	*Worker
	publisher *pubsub.Publisher
}

// Publish returns when the answers are stored, however long that takes, or when the worker cannot wait any longer.
// Stored twice within the stream's duplicate window, an answer is there once.
func (a answerer) Publish(_ string, answers ...*message.Message) error {
	for _, answer := range answers {
		if err := a.store(answer); err != nil {
			return err
		}
	}
	return nil
}

// Close does nothing: the connection is the caller's.
func (a answerer) Close() error { return nil }

func (a answerer) store(answer *message.Message) error {
	subject, to := answer.Metadata[subjectKey], answer.Metadata[replyKey]
	maps.DeleteFunc(answer.Metadata, func(key, value string) bool {
		return key == subjectKey || key == replyKey || value == "" // the last is a correlation that there is none of
	})
	if to != "" {
		return a.reply(answer, to)
	}
	answer.SetContext(a.answers)
	for delay := firstRetryDelay; ; delay = min(2*delay, lastRetryDelay) {
		err := a.publisher.Publish(subject, answer)
		if err == nil {
			return nil
		}
		a.opts.Logger.Warn("result not stored, trying again", "subject", subject, "msgid", answer.UUID, "err", err)
		select {
		case <-time.After(delay):
		case <-a.answers.Done():
			return fmt.Errorf("worker: store result %s: worker %w: %w", answer.UUID, pubsub.ErrClosed, err)
		}
	}
}
