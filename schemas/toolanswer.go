package schemas

import (
	"crypto/rand"
	"encoding/json"
	"time"
)

// TextOutcomeUnknown is the result of a call that was lost with its worker and must not be repeated.
const TextOutcomeUnknown = "The outcome of this call is unknown: the worker that ran it was lost before it answered. " +
	"It was not run again because the tool is not safe to repeat. Check what happened before calling it again."

// ToolAnswer is a [ToolResponse] as it is sent to the session's inbox: with the id of the command it is.
type ToolAnswer struct {
	ID string `json:"id,omitempty"`
	ToolResponse
}

// Answer is the answer to the request by the worker of that name, after the tool ran for so long. Its id is the same
// whichever worker answers: a session takes one.
func (r ToolRequest) Answer(worker string, result ToolResult, isError bool, took time.Duration) ToolAnswer {
	return ToolAnswer{"result/" + string(r.Call), ToolResponse{
		Call: r.Call, ToolCallID: r.ToolCallID, ToolName: r.ToolName, Result: result, IsError: isError,
		DurationMs: took.Milliseconds(), Worker: worker, Nonce: r.Nonce,
	}}
}

// AnswerMsgID is the Nats-Msg-Id of the answer: stored twice within the stream's duplicate window, it is there once.
// Without a nonce it is another one at each call, so that nobody can take it beforehand.
func (r ToolRequest) AnswerMsgID() string {
	id := r.IdempotencyKey() + "/result"
	if r.Nonce == "" {
		id += "/" + rand.Text()
	}
	return id
}

// ParseToolRequest reads a request and validates it by its schema. An error is a [*ValidationError] or says why it is
// no JSON.
func ParseToolRequest(payload []byte) (r ToolRequest, err error) {
	if r, ok := canonicalRequest(payload); ok {
		return r, nil
	}
	if err := ValidateToolRequest(payload); err != nil {
		return r, err
	}
	err = json.Unmarshal(payload, &r)
	return r, err
}
