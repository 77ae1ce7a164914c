package openaiapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// An APIError is a failure that the server reported.
type APIError struct {
	Status int    // of the response; 0 if an event of a stream reported the failure
	Detail string // the server's text
	Raw    string // the text of the vendor behind a router, which OpenRouter sends as metadata.raw

	names []string // the server's names of the failure, as in [failure.New]
}

// Error returns the status, if there is one, and Detail. Raw follows on a line of its own.
func (e *APIError) Error() string {
	text := e.Detail
	if e.Status != 0 {
		text = fmt.Sprintf("%d %s", e.Status, e.Detail)
	}
	if e.Raw != "" {
		text += "\n" + e.Raw
	}
	return text
}

// FailureCode returns the code of the failure.
func (e *APIError) FailureCode() schemas.FailureCode {
	return failure.Code(e.Error(), e.Status, e.names...)
}

// FromTap returns an [APIError] for the tap's newest response if that failed, or else err. It replaces the SDK's error,
// which contains the URL and loses the text of a body that is not in OpenAI's form.
func FromTap(tap *transport.Tap, err error) error {
	f, ok := tap.Failure()
	if !ok {
		return err
	}
	e := &APIError{Status: f.Status, Detail: f.Text(), names: failure.Names(f.Body)}
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(f.Body, &body) == nil && Truthy(body.Error) {
		e.Detail, e.Raw = describe(body.Error)
	}
	if e.Detail == "" {
		e.Detail = "status code (no body)"
	}
	return e
}

// FromStream returns the error that an event of a stream carries as its error member.
func FromStream(object json.RawMessage) *APIError {
	e := &APIError{names: failure.Names(object)}
	e.Detail, e.Raw = describe(object)
	return e
}

// describe returns the message of an error object, or the object's JSON if it has none, and its metadata.raw.
func describe(object json.RawMessage) (detail, raw string) {
	var o struct {
		Message  json.RawMessage `json:"message"`
		Metadata struct {
			Raw json.RawMessage `json:"raw"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(object, &o) // a value that is not an object has no message
	if detail = textOf(o.Message); detail == "" {
		detail = compact(object)
	}
	return detail, textOf(o.Metadata.Raw)
}

// textOf returns the content of a JSON string, or else the JSON of the value. It returns "" for a value that is absent
// or not [Truthy].
func textOf(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil || !Truthy(value) {
		return s
	}
	return compact(value)
}

func compact(value json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return strings.TrimSpace(string(value))
	}
	return b.String()
}

// Truthy reports whether a value is present and is not null, false, 0 or an empty string. Some servers send an error
// member with every event.
func Truthy(value json.RawMessage) bool {
	switch string(bytes.TrimSpace(value)) {
	case "", "null", "false", "0", `""`:
		return false
	}
	return true
}
