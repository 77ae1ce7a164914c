package bridge

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// RequestError reports a request that violates its protocol. It has changed nothing.
type RequestError struct{ Reason string }

// Error returns the reason.
func (e *RequestError) Error() string { return e.Reason }

// Status returns the HTTP status and the code for answering with an error.
func Status(err error) (status int, code string) {
	var request *RequestError
	var rejected *client.RejectedError
	var query *schemas.QueryError
	var large *http.MaxBytesError
	var failure *schemas.FailureError
	switch {
	case errors.Is(err, ErrFull):
		return http.StatusServiceUnavailable, string(schemas.FailureOverloaded)
	case errors.As(err, &large), errors.As(err, &failure) && failure.Code == schemas.FailureTooLarge:
		return http.StatusRequestEntityTooLarge, string(schemas.RejectTooLarge)
	case errors.As(err, &request), errors.Is(err, schemas.ErrSubject):
		return http.StatusBadRequest, string(schemas.RejectInvalid)
	case errors.As(err, &rejected):
		return http.StatusConflict, string(rejected.Code)
	case errors.As(err, &query):
		return query.Code.HTTPCode(), string(query.Code)
	case errors.Is(err, client.ErrDeleted):
		return http.StatusNotFound, string(schemas.QueryNotFound)
	case errors.Is(err, nats.ErrPermissionViolation):
		return http.StatusForbidden, "permission"
	case errors.Is(err, client.ErrNoStreams), errors.Is(err, nats.ErrNoResponders):
		return http.StatusServiceUnavailable, "unavailable"
	}
	return http.StatusBadGateway, "unavailable"
}

// Refuse answers a request with an error: its status, and JSON with code and message.
func Refuse(w http.ResponseWriter, err error) {
	status, code := Status(err)
	if errors.Is(err, ErrFull) {
		w.Header().Set("Retry-After", "5")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{code, err.Error()})
}
