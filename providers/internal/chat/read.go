package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/sse"
	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

var done = []byte("[DONE]")

// ErrNoEnd says that a reply's body ended, and the reply had not.
var ErrNoEnd = schemas.NewFailure(schemas.FailureConnection, "stream ended before a finish reason or [DONE]")

// A FinishError is a finish reason that says that there will be no reply.
type FinishError string

func (e FinishError) Error() string { return "Provider finish_reason: " + string(e) }

// FailureCode returns what the reason means, where it means a failure that is known.
func (e FinishError) FailureCode() schemas.FailureCode { return failure.Code(string(e), 0, string(e)) }

// UnknownReason is the error of a reply that ended for a reason that its API package does not know, in the words that
// clients know.
func UnknownReason(reason string) error {
	return failure.New("Unhandled stop reason: "+reason, 0, reason)
}

// Read gives each chunk of a streamed reply to take, as JSON that is valid until take returns, and reports whether the
// stream ended as it should: with [DONE]. Where the body just ends it returns false, nil. An error of take ends it; one
// of [Decode] says that the chunk is broken.
func Read(body io.Reader, take func(data []byte) error) (ended bool, err error) {
	events := sse.NewDecoder(body)
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
			data = e.Raw // the JSON of an error, sent as if nobody had asked for a stream
		}
		if len(data) == 0 {
			continue // a heartbeat
		}
		var broken *json.SyntaxError
		switch err := take(data); {
		case errors.As(err, &broken) && e.Unterminated:
			return false, nil // the body was cut in the middle of an event
		case errors.As(err, &broken):
			return false, &schemas.FailureError{
				Code: schemas.FailureServerError, Err: fmt.Errorf("stream terminated by a malformed chunk: %w", err),
			}
		case err != nil:
			return false, err
		}
	}
}

// Decode reads a chunk into v. A member of the wrong type counts as absent: servers differ too much to insist on more.
func Decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var wrongType *json.UnmarshalTypeError // on the heap, so only where it is needed
	if errors.As(err, &wrongType) {
		return nil
	}
	return err
}

// Text is a [wtf8.Text] that is empty where there is no string.
type Text string

// UnmarshalJSON reads any JSON value.
func (t *Text) UnmarshalJSON(data []byte) error {
	var text wtf8.Text
	_ = text.UnmarshalJSON(data)
	*t = Text(text)
	return nil
}

// Arguments are those of a streamed tool call, or a piece of them: a JSON string that holds JSON, or from some servers
// the JSON itself.
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
