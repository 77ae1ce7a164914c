package worker

import (
	"fmt"
	"maps"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// subjectKey is the metadata key of the subject to which the answerer publishes an answer; replyKey replaces it if
	// the caller is not a session. The answerer removes both before it publishes.
	subjectKey = "subject"
	replyKey   = "reply"

	publishTimeout  = 5 * time.Second
	firstRetryDelay = 50 * time.Millisecond
	lastRetryDelay  = 5 * time.Second
)

// answer returns the message that answers a call. took is how long the call was executed.
func (h toolHandler) answer(call *message.Message, req schemas.ToolRequest, result schemas.ToolResult, isError bool,
	took time.Duration,
) ([]*message.Message, error) {
	payload, err := h.encode(req.Answer(h.opts.ID, schemas.ValidResult(result), isError, took)) // mended as in memory
	if err != nil {
		// The session would wait for ever for an answer that it rejects, and without one the tool would run again.
		text := "The result of this call cannot be passed on: " + err.Error()
		payload, err = h.encode(req.Answer(h.opts.ID, schemas.ValidResult(schemas.ErrorResult(text)), true, took))
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

// encode encodes an answer in its maximum size. An answer that the session would reject is an error.
func (h toolHandler) encode(answer schemas.ToolAnswer) ([]byte, error) {
	payload, err := fit(answer, h.maxAnswerBytes())
	if err == nil {
		_, _, err = schemas.ParseCommand(schemas.CommandToolResult, payload)
	}
	return payload, err
}

// giveUp returns the message that tells the caller that its call has become a dead letter; none if the message is no
// call.
func (w *Worker) giveUp(msg *message.Message) []*message.Message {
	raw, ok := pubsub.RawMessage(msg)
	if !ok {
		return nil
	}
	queue, session, call, err := w.opts.Subjects.ParseTool(raw.Subject())
	if err != nil {
		return nil
	}
	req, err := w.parse(msg.Payload, queue, session, call)
	if err != nil {
		return nil
	}
	text := fmt.Sprintf("This call was given up: the worker could not handle it in %d deliveries. It may have been "+
		"executed. Its dead letter has the reason.", maxDeliveries)
	answer, err := toolHandler{Worker: w}.answer(msg, req, schemas.ErrorResult(text), true, 0)
	if err != nil {
		w.opts.Logger.Error("call given up without a result", "session", session, "call", call, "err", err)
	}
	return answer
}

// maxAnswerBytes returns the maximum size of an answer of the tool.
func (h toolHandler) maxAnswerBytes() int {
	limit := min(h.opts.MaxResultBytes, int(h.opts.NC.MaxPayload())-natsio.HeaderRoom)
	if own := h.tool.MaxResultBytes; own > 0 {
		limit = int(min(int64(limit), own))
	}
	return limit
}

// answerer is the Watermill publisher of answers. The metadata of an answer has its subject, so the topic is not used.
type answerer struct {
	*Worker
	publisher *pubsub.Publisher
}

// Publish stores the answers. It retries until they are stored; it returns an error if the worker has to stop before
// that, or if the connection is closed. Within its duplicate window the stream stores a repeated answer once.
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
		return key == subjectKey || key == replyKey ||
			value == "" // Watermill sets an empty correlation id if a message has none
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
		if a.opts.NC.IsClosed() { // it never reconnects
			return fmt.Errorf("worker: store result %s: %w", answer.UUID, err)
		}
		a.opts.Logger.Warn("result not stored, trying again", "subject", subject, "msgid", answer.UUID, "err", err)
		select {
		case <-time.After(delay):
		case <-a.answers.Done():
			return fmt.Errorf("worker: store result %s: worker %w: %w", answer.UUID, pubsub.ErrClosed, err)
		}
	}
}
