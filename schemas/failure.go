package schemas

import "errors"

// FailureCode is the kind of failure that ended a model's reply. The code is set where the failure is known and travels
// with it. Whether a retry may help is decided by the code and never by a text.
type FailureCode string

// The failure codes. A reader that does not know a code takes it for [FailureUnknown].
const (
	// Failures that a retry of the same request may cure.
	FailureRateLimited FailureCode = "rate_limited" // too many requests or tokens for the moment
	FailureOverloaded  FailureCode = "overloaded"   // the vendor has no capacity
	FailureServerError FailureCode = "server_error" // the vendor failed, or sent a response that makes no sense
	FailureTimeout     FailureCode = "timeout"      // no response in time
	FailureConnection  FailureCode = "connection"   // no connection, or one that broke before the reply was complete

	// Failures that stay until the request, the account or the model changes.
	FailureContextOverflow FailureCode = "context_overflow" // the conversation is longer than the context window
	FailureTooLarge        FailureCode = "too_large"        // a request or a reply beyond a limit of loopbus
	FailureQuota           FailureCode = "quota"            // the account has used up its quota
	FailureAuth            FailureCode = "auth"             // no key, a wrong one, or no right to the model
	FailureInvalidRequest  FailureCode = "invalid_request"  // the request cannot be served as it is
	FailureRefused         FailureCode = "refused"          // the vendor withheld the reply because of its content
	FailureUnknown         FailureCode = "unknown"          // any other
)

// Known returns the code, or [FailureUnknown] if the code is not one of those above. It returns "" for no code.
func (c FailureCode) Known() FailureCode {
	switch c {
	case "", FailureContextOverflow, FailureTooLarge, FailureQuota, FailureAuth, FailureInvalidRequest, FailureRefused:
		return c
	}
	if c.Retryable() {
		return c
	}
	return FailureUnknown
}

// Retryable reports whether the same request may succeed a little later.
func (c FailureCode) Retryable() bool {
	switch c {
	case FailureRateLimited, FailureOverloaded, FailureServerError, FailureTimeout, FailureConnection:
		return true
	}
	return false
}

// A FailureError is an error with its code. Other error types provide one by a method FailureCode, see [FailureCodeOf].
type FailureError struct {
	Code FailureCode
	Err  error // never nil
}

// NewFailure returns an error with a code and a text.
func NewFailure(code FailureCode, text string) *FailureError {
	return &FailureError{Code: code, Err: errors.New(text)}
}

// Error returns the text of the error inside.
func (e *FailureError) Error() string { return e.Err.Error() }

// Unwrap returns the error inside.
func (e *FailureError) Unwrap() error { return e.Err }

// FailureCode returns the code.
func (e *FailureError) FailureCode() FailureCode { return e.Code }

// FailureCodeOf returns the code of the first error in the chain that has a method FailureCode, and [FailureUnknown] if
// none has.
func FailureCodeOf(err error) FailureCode {
	var coded interface{ FailureCode() FailureCode }
	if errors.As(err, &coded) {
		return coded.FailureCode()
	}
	return FailureUnknown
}
