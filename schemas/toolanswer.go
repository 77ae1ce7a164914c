package schemas

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// TextOutcomeUnknown is the result of a call whose worker was lost and that must not be executed again.
const TextOutcomeUnknown = "The outcome of this call is unknown: the worker that ran it was lost before it answered. " +
	"It was not run again because the tool is not safe to repeat. Check what happened before calling it again."

// MaxToolCallID is the largest length of a tool call's id in characters for which a worker can answer. A call with a
// longer id is not executed.
const MaxToolCallID = 4096

// ToolAnswer is a [ToolResponse] as it is sent to the session's inbox: with the id of its command.
type ToolAnswer struct {
	ID string `json:"id,omitempty"`
	ToolResponse
}

// NoNonce is the nonce of an answer to a request that had none: it is not the answer to a call that has one. Who may
// call a tool can have its worker answer in any session's inbox, by a request for that session without a nonce.
const NoNonce = "-"

// Cancellation returns the payload of a cancellation of a call with this nonce: the nonce's SHA-256 in hexadecimal
// digits, or [NoNonce]. All workers receive it, also those of other tools, which must not learn the nonce: they could
// answer the call. A cancellation without a payload could be a NATS server's reply, and cancels nothing.
func Cancellation(nonce string) string {
	if nonce == "" {
		return NoNonce
	}
	sum := sha256.Sum256([]byte(nonce))
	return hex.EncodeToString(sum[:])
}

// Answer returns the answer of a worker to the request, after the tool ran for the duration took. Its id is the same
// for every worker, so that a session accepts one answer.
func (r ToolRequest) Answer(worker string, result ToolResult, isError bool, took time.Duration) ToolAnswer {
	return ToolAnswer{"result/" + string(r.Call), ToolResponse{
		Call: r.Call, ToolCallID: r.ToolCallID, ToolName: r.ToolName, Result: result, IsError: isError,
		DurationMs: took.Milliseconds(), Worker: worker, Nonce: cmp.Or(r.Nonce, NoNonce),
	}}
}

// AnswerMsgID returns the Nats-Msg-Id of the answer: published twice within the stream's duplicate window, the answer
// is stored once. Without a nonce every call returns another id, so that nobody can guess it and publish it beforehand.
func (r ToolRequest) AnswerMsgID() string {
	id := r.IdempotencyKey() + "/result"
	if r.Nonce == "" {
		id += "/" + rand.Text()
	}
	return id
}

// Answers reports whether the response is the answer to a call with this nonce: a worker of one tool may send answers
// to any session, but knows the nonces of its own calls only. Calls of older runners have no nonce.
func (r *ToolResponse) Answers(nonce string) bool { return nonce == "" || r.Nonce == nonce }

// ParseToolRequest validates and decodes a request. An error is a [*ValidationError] or the reason why it is not JSON.
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
