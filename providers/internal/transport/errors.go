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

// Failure is a response with a status of 400 or above. Body is what was read of its body.
type Failure struct {
	Status int
	Header http.Header
	Body   []byte
}

// Text returns the body: compact if it is JSON, or else without the white space around it and with invalid UTF-8
// replaced.
func (f Failure) Text() string {
	var b bytes.Buffer
	if json.Compact(&b, f.Body) == nil {
		return b.String()
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(f.Body), "\uFFFD"))
}

// A TimeoutError is the error of a response that did not begin within Limit.
type TimeoutError struct{ Limit time.Duration }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("request timed out: no response within %s", e.Limit)
}

// FailureCode returns timeout.
func (e *TimeoutError) FailureCode() schemas.FailureCode { return schemas.FailureTimeout }

// A ConnectError is the error of a request that got no response.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return "connection error: " + e.Err.Error() }

// Unwrap returns the error of the HTTP client.
func (e *ConnectError) Unwrap() error { return e.Err }

// FailureCode returns connection.
func (e *ConnectError) FailureCode() schemas.FailureCode { return schemas.FailureConnection }

// A CutError is the error of a response whose body was cut off.
type CutError struct{ Err error }

func (e *CutError) Error() string { return "terminated: response broke off: " + e.Err.Error() }

// Unwrap returns the error of the connection.
func (e *CutError) Unwrap() error { return e.Err }

// FailureCode returns connection.
func (e *CutError) FailureCode() schemas.FailureCode { return schemas.FailureConnection }

// Text returns the text of an error for the reply. For an error of a [Tap] it omits the SDK's wrapping. It omits URLs
// too, because they may contain keys.
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

// RetryAfter returns how long the vendor requests to wait before a retry, by the header Retry-After-Ms or else
// Retry-After. A time in the past is a wait of 0. ok is false if no header has a valid value.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
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
