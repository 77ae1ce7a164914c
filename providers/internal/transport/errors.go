package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Failure is a response whose status says that the request failed.
type Failure struct {
	Status int
	Header http.Header
	Body   []byte
}

// Text returns the body: compact if it is JSON, else as it is but for white space around it.
func (f Failure) Text() string {
	var b bytes.Buffer
	if json.Compact(&b, f.Body) == nil {
		return b.String()
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(f.Body), "\uFFFD"))
}

// A TimeoutError says that a response did not begin in time.
type TimeoutError struct{ Limit time.Duration }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("request timed out: no response within %s", e.Limit)
}

// FailureCode returns timeout.
func (e *TimeoutError) FailureCode() schemas.FailureCode { return schemas.FailureTimeout }

// A ConnectError says that there was no response.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return "connection error: " + e.Err.Error() }

// Unwrap returns what went wrong.
func (e *ConnectError) Unwrap() error { return e.Err }

// FailureCode returns connection.
func (e *ConnectError) FailureCode() schemas.FailureCode { return schemas.FailureConnection }

// A CutError says that a response broke off.
type CutError struct{ Err error }

func (e *CutError) Error() string { return "terminated: response broke off: " + e.Err.Error() }

// Unwrap returns what went wrong.
func (e *CutError) Unwrap() error { return e.Err }

// FailureCode returns connection.
func (e *CutError) FailureCode() schemas.FailureCode { return schemas.FailureConnection }

// Text returns what an error is to be called. Of what a [Tap] found out, the SDK's wrapping is left out, and so are
// URLs, which may hold keys.
func Text(err error) string {
	var timeout *TimeoutError
	var connect *ConnectError
	var cut *CutError
	var wrapped *url.Error
	switch {
	case errors.As(err, &timeout):
		return timeout.Error()
	case errors.As(err, &connect):
		return connect.Error()
	case errors.As(err, &cut):
		return cut.Error()
	case errors.As(err, &wrapped):
		return wrapped.Err.Error()
	}
	return err.Error()
}

// RetryAfter returns how long the vendor asks to wait, by the headers retry-after-ms or retry-after. A moment in the
// past is no wait.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	for _, header := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		value := h.Get(header.name)
		if n, err := strconv.ParseFloat(value, 64); err == nil && n >= 0 {
			return time.Duration(min(n*float64(header.unit), float64(1<<62))), true
		}
		if at, err := http.ParseTime(value); err == nil {
			return max(0, at.Sub(now)), true
		}
	}
	return 0, false
}
