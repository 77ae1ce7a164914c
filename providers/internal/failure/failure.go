// Package failure classifies the failures that vendors report.
//
// It uses, in this order: the vendor's name of the failure, if that is unambiguous; the status of the response, refined
// by the vendor's text; and the text alone if there is no status.
package failure

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// New returns an error with the given text, which is or contains the vendor's text. status is the HTTP status, 0 within
// a stream. names are the vendor's names of the failure: codes, types and statuses.
func New(text string, status int, names ...string) *schemas.FailureError {
	return schemas.NewFailure(Code(text, status, names...), text)
}

// OfResponse returns the error of a failed response. names are names of the failure that its body does not contain.
func OfResponse(text string, f transport.Failure, names ...string) *schemas.FailureError {
	return New(text, f.Status, append(names, Names(f.Body)...)...)
}

// OfEvent returns the error that an event of a stream reports. object is the event or its error object.
func OfEvent(text string, object json.RawMessage) *schemas.FailureError {
	return New(text, 0, Names(object)...)
}

// Code returns the code of a failure. [New] explains the parameters.
func Code(text string, status int, names ...string) schemas.FailureCode {
	for _, name := range names {
		if code, ok := byName[strings.ToLower(name)]; ok {
			return code
		}
	}
	for i := 0; status == 0 && i < len(names); i++ {
		status = statusOf(names[i])
	}
	code, vague := byStatus(status)
	switch {
	case status == 0:
		return providers.FailureOfText(text)
	case vague && providers.IsOverflow(text):
		return schemas.FailureContextOverflow
	case vague && providers.IsQuota(text):
		return schemas.FailureQuota
	}
	return code
}

// byName maps the names that are unambiguous, in lower case, to their codes.
var byName = map[string]schemas.FailureCode{
	"rate_limit_error":              schemas.FailureRateLimited,
	"rate_limit_exceeded":           schemas.FailureRateLimited,
	"rate_limited":                  schemas.FailureRateLimited,
	"throttlingexception":           schemas.FailureRateLimited,
	"throttling":                    schemas.FailureRateLimited, // AWS STS
	"overloaded_error":              schemas.FailureOverloaded,
	"unavailable":                   schemas.FailureOverloaded,
	"serviceunavailableexception":   schemas.FailureOverloaded,
	"modelnotreadyexception":        schemas.FailureOverloaded,
	"api_error":                     schemas.FailureServerError,
	"server_error":                  schemas.FailureServerError,
	"internal_error":                schemas.FailureServerError,
	"internal_server_error":         schemas.FailureServerError,
	"internal":                      schemas.FailureServerError,
	"internalserverexception":       schemas.FailureServerError,
	"modelstreamerrorexception":     schemas.FailureServerError,
	"timeout_error":                 schemas.FailureTimeout,
	"deadline_exceeded":             schemas.FailureTimeout,
	"modeltimeoutexception":         schemas.FailureTimeout,
	"context_length_exceeded":       schemas.FailureContextOverflow,
	"request_too_large":             schemas.FailureContextOverflow,
	"model_context_window_exceeded": schemas.FailureContextOverflow,
	"exceed_context_size_error":     schemas.FailureContextOverflow,
	"insufficient_quota":            schemas.FailureQuota,
	"billing_error":                 schemas.FailureQuota,
	"billing_not_active":            schemas.FailureQuota,
	"billing_hard_limit_reached":    schemas.FailureQuota,
	"gousagelimiterror":             schemas.FailureQuota,
	"servicequotaexceededexception": schemas.FailureQuota,
	"1308":                          schemas.FailureQuota, // z.ai
	"authentication_error":          schemas.FailureAuth,
	"permission_error":              schemas.FailureAuth,
	"invalid_api_key":               schemas.FailureAuth,
	"unauthenticated":               schemas.FailureAuth,
	"permission_denied":             schemas.FailureAuth,
	"accessdeniedexception":         schemas.FailureAuth,
	"unrecognizedclientexception":   schemas.FailureAuth,
	"expiredtokenexception":         schemas.FailureAuth,
	"not_found_error":               schemas.FailureInvalidRequest,
	"model_not_found":               schemas.FailureInvalidRequest,
	"resourcenotfoundexception":     schemas.FailureInvalidRequest,
	"content_filter":                schemas.FailureRefused,
	"content_policy_violation":      schemas.FailureRefused,
	"responsibleaipolicyviolation":  schemas.FailureRefused,
	"moderation_blocked":            schemas.FailureRefused,
	"data_inspection_failed":        schemas.FailureRefused,
}

// statusNames maps names that stand for an HTTP status, in lower case.
var statusNames = map[string]int{
	"resource_exhausted":    http.StatusTooManyRequests,
	"invalid_argument":      http.StatusBadRequest,
	"failed_precondition":   http.StatusBadRequest,
	"invalid_request_error": http.StatusBadRequest,
	"validationexception":   http.StatusBadRequest,
	"not_found":             http.StatusNotFound,
}

// statusOf returns the HTTP status that a name stands for, or that it is in digits, or else 0.
func statusOf(name string) int {
	if n, err := strconv.Atoi(name); err == nil && n >= 400 && n < 600 {
		return n
	}
	return statusNames[strings.ToLower(name)]
}

// byStatus returns the code for a status. vague is true if the vendor's text may tell a more precise code.
func byStatus(status int) (code schemas.FailureCode, vague bool) {
	switch status {
	case http.StatusTooManyRequests:
		return schemas.FailureRateLimited, true
	case http.StatusServiceUnavailable, 529: // Anthropic
		return schemas.FailureOverloaded, false
	case http.StatusRequestTimeout, http.StatusGatewayTimeout, 524: // Cloudflare
		return schemas.FailureTimeout, false
	case http.StatusConflict: // between two concurrent requests; a retry may succeed
		return schemas.FailureServerError, false
	case http.StatusUnauthorized:
		return schemas.FailureAuth, false
	case http.StatusForbidden:
		return schemas.FailureAuth, true
	case http.StatusPaymentRequired:
		return schemas.FailureQuota, false
	case http.StatusRequestEntityTooLarge:
		return schemas.FailureContextOverflow, false
	}
	if status >= 500 {
		return schemas.FailureServerError, true
	}
	return schemas.FailureInvalidRequest, true
}

// Names returns the names of a failure in a JSON object: the values of the members code, type and status of its error
// member and of the object itself. Numbers are returned in digits.
func Names(object json.RawMessage) []string {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(object, &outer) != nil { // not an object, or truncated
		return nil
	}
	return append(members(outer.Error), members(object)...)
}

func members(object json.RawMessage) (names []string) {
	var named map[string]json.RawMessage
	if json.Unmarshal(object, &named) != nil {
		return nil
	}
	for _, member := range []string{"code", "type", "status"} {
		var text string
		if json.Unmarshal(named[member], &text) != nil {
			text = string(named[member]) // a number, or a value that is not a name
		}
		if text != "" {
			names = append(names, text)
		}
	}
	return names
}
