package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/held"
	"github.com/loopbus/loopbus/providers/internal/sse"
	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

var done = []byte("[DONE]")

// ErrNoEnd is the error of a body that ended before the reply was complete.
var ErrNoEnd = schemas.NewFailure(schemas.FailureConnection, "stream ended before a finish reason or [DONE]")

// ErrDone is not a failure: the function that [Read] calls returns it once the reply is complete.
var ErrDone = errors.New("the reply is complete")

// A FinishError is a finish reason that means that the reply failed.
type FinishError string

func (e FinishError) Error() string { return "Provider finish_reason: " + string(e) }

// FailureCode returns the code of the failure that the reason names.
func (e FinishError) FailureCode() schemas.FailureCode { return failure.Code(string(e), 0, string(e)) }

// UnknownReason returns the error of a reply whose finish reason its API package does not know. Clients know its text.
func UnknownReason(reason string) error {
	return failure.New("Unhandled stop reason: "+reason, 0, reason)
}

// Read calls take with each chunk of a streamed reply. Long chunks are counted in share. data is valid until take
// returns. ended reports whether the stream ended with [DONE] or take returned [ErrDone]; if the body ends before that,
// Read returns false and no error. An error of take ends Read. If it wraps a syntax error, as [Decode] returns it, the
// chunk is malformed: Read returns a server_error, or no error if the body ended within that event.
func Read(body io.Reader, share *held.Share, take func(data []byte) error) (ended bool, err error) {
	events := sse.NewDecoder(body, share)
	defer events.Close()
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case bytes.HasPrefix(e.Data, done):
			return true, nil
		}
		data := e.Data
		if data == nil && bytes.HasPrefix(e.Raw, []byte{'{'}) {
			data = e.Raw // some servers send an error as plain JSON, not as an event
		}
		if len(data) == 0 {
			continue // a heartbeat
		}
		var broken *json.SyntaxError
		switch err := take(data); {
		case errors.Is(err, ErrDone):
			return true, nil
		case errors.As(err, &broken) && e.Unterminated:
			return false, nil // the body ended within an event
		case errors.As(err, &broken):
			return false, &schemas.FailureError{
				Code: schemas.FailureServerError, Err: fmt.Errorf("stream terminated by a malformed chunk: %w", err),
			}
		case err != nil:
			return false, err
		}
	}
}

// Decode decodes a chunk into v. A member of the wrong type counts as absent, because servers differ in the types they
// send. All other errors are those of [json.Unmarshal].
func Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var wrongType *json.UnmarshalTypeError // declared here because it is allocated on the heap
	if errors.As(err, &wrongType) {
		return nil
	}
	return err
}

// Text is a [wtf8.Text] that decodes a value that is not a string as "".
type Text string

// UnmarshalJSON reads any JSON value.
func (t *Text) UnmarshalJSON(data []byte) error {
	var text wtf8.Text
	_ = text.UnmarshalJSON(data)
	*t = Text(text)
	return nil
}

// Arguments is the JSON of a streamed tool call's arguments, or a piece of it. Most servers send it in a JSON string,
// some as the JSON itself.
type Arguments string

// UnmarshalJSON reads any JSON value. Null is empty.
func (a *Arguments) UnmarshalJSON(data []byte) error {
	var text wtf8.Text
	if text.UnmarshalJSON(data) == nil {
		*a = Arguments(text)
	} else {
		*a = Arguments(data)
	}
	return nil
}
