// Package failure finds out what kind of failure a vendor tells of.
//
// What counts, in this order: the name that the vendor gives the failure, where that can mean one thing only; the
// status of the response, looked at again where the vendor's words say more than the status can; and these words
// alone, where there is nothing else.
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

// New returns an error that says text, which is what the vendor said or has it in it. status is the response's, 0 in
// the middle of a stream; names are what the vendor calls the failure: codes, types, statuses.
func New(text string, status int, names ...string) *schemas.FailureError {
	return schemas.NewFailure(Code(text, status, names...), text)
}

// OfResponse returns the error of a failing response; names are those that the body does not have.
func OfResponse(text string, f transport.Failure, names ...string) *schemas.FailureError {
	return New(text, f.Status, append(names, Names(f.Body)...)...)
}

// OfEvent returns the error that an event of a stream is.
func OfEvent(text string, object json.RawMessage) *schemas.FailureError {
	return New(text, 0, Names(object)...)
}

// maxText is how much of a text is looked through, in bytes: it takes time.
const maxText = 64 << 10

// Code returns the code of a failure, see [New].
func Code(text string, status int, names ...string) schemas.FailureCode {
	text = text[:min(len(text), maxText)]
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

// byName are the names that can mean one thing only, in lower case.
var byName = map[string]schemas.FailureCode{
	"rate_limit_error":              schemas.FailureRateLimited,
	"rate_limit_exceeded":           schemas.FailureRateLimited,
	"rate_limited":                  schemas.FailureRateLimited,
	"throttlingexception":           schemas.FailureRateLimited,
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

// statusNames are names that stand for a status.
var statusNames = map[string]int{
	"resource_exhausted":    http.StatusTooManyRequests,
	"invalid_argument":      http.StatusBadRequest,
	"failed_precondition":   http.StatusBadRequest,
	"invalid_request_error": http.StatusBadRequest,
	"validationexception":   http.StatusBadRequest,
	"not_found":             http.StatusNotFound,
}

// statusOf returns the status that a name stands for or is, else 0.
func statusOf(name string) int {
	if n, err := strconv.Atoi(name); err == nil && n >= 400 && n < 600 {
		return n
	}
	return statusNames[strings.ToLower(name)]
}

// byStatus returns what a status says, and whether the vendor's words may say more.
func byStatus(status int) (code schemas.FailureCode, vague bool) {
	switch status {
	case http.StatusTooManyRequests:
		return schemas.FailureRateLimited, true
	case http.StatusServiceUnavailable, 529: // Anthropic
		return schemas.FailureOverloaded, false
	case http.StatusRequestTimeout, http.StatusGatewayTimeout, 524: // Cloudflare
		return schemas.FailureTimeout, false
	case http.StatusConflict: // of two requests at once
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

// Names returns what a JSON object, or the error in it, calls a failure: its members code, type and status, numbers
// too.
func Names(object json.RawMessage) []string {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(object, &outer) != nil { // no object, or none that is whole
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
			text = string(named[member]) // a number, or what is no name
		}
		if text != "" {
			names = append(names, text)
		}
	}
	return names
}
