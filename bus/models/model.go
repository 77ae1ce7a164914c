package models

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Provider is the provider, and the API, of models that a [Client] calls. The id of such a model is the name of a model
// at the server: provider/id, or an id that is unique there.
const Provider = "bus"

const (
	queueGroup             = "models"        // of all servers
	defaultMaxBytes        = 64 << 20        // bytes of a request, and of one event
	defaultMaxTotal        = 192 << 20       // bytes of all requests that a server holds
	defaultMaxAnswers      = 128 << 20       // bytes of all answers that a client has not decoded yet
	defaultHeartbeat       = time.Second     // maximum time between two messages to the caller
	idleTimeout            = 5 * time.Second // without a message; the loss of four heartbeats is tolerated
	defaultStallTimeout    = time.Hour
	uploadTimeout          = 30 * time.Second // for all parts of a request to arrive
	cancelTimeout          = time.Second      // for the final event of a cancelled call to arrive
	defaultCallerHeartbeat = 5 * time.Second  // between two heartbeats of a caller
	defaultCallerTimeout   = 30 * time.Second // without one; the loss of five is tolerated
)

// A Model answers a request with a stream that ends with a done or an error event. Stream may be called concurrently.
// The stream ends soon after its context.
type Model interface {
	Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error]
}

// The text of a failure is recorded as the error message of the reply. Its code decides whether the caller retries.
var (
	errNoModels = schemas.NewFailure(schemas.FailureInvalidRequest,
		"no runner serves models (start one with --serve-models)")
	errModelLost     = schemas.NewFailure(schemas.FailureConnection, "connection lost")
	errNoTerminal    = schemas.NewFailure(schemas.FailureConnection, "model stream ended without a terminal event")
	errServerAborted = schemas.NewFailure(schemas.FailureConnection,
		"connection lost: the server of the model has aborted the reply, its caller has not")
	errServerFull = schemas.NewFailure(schemas.FailureOverloaded,
		"too many requests: the runner that serves models answers as many as it may")
	errQuotaExceeded = schemas.NewFailure(schemas.FailureOverloaded,
		"too many requests: the runner that serves models has taken in as much of others as it may")
	errHeader = schemas.NewFailure(schemas.FailureTooLarge,
		"the request has more of a header than a client of models sends")
	errServerStopping = schemas.NewFailure(schemas.FailureConnection,
		"connection lost: the runner that serves the model stops")
	errCallerSilent = schemas.NewFailure(schemas.FailureConnection,
		"connection lost: the runner that serves the model has no heartbeat of its caller")
	// Causes of a cancellation by the caller.
	errNoCaller  = errors.New("the caller no longer subscribes to the answers of the call")
	errCancelled = errors.New("the caller has cancelled the call")
)

const textModelAborted = "Request was aborted"

// failedReply returns the terminal event of a call that failed with err, or of an aborted call if ctx has ended.
func failedReply(ctx context.Context, ref schemas.ModelRef, err error) schemas.StreamEvent {
	m := &schemas.AssistantMessage{
		API: ref.API, Provider: ref.Provider, Model: ref.ID, StopReason: schemas.StopError, ErrorMessage: err.Error(),
		Timestamp: time.Now().UnixMilli(),
	}
	if ctx.Err() != nil {
		m.StopReason, m.ErrorMessage = schemas.StopAborted, textModelAborted
		return schemas.StreamEvent{Type: schemas.StreamError, Reason: m.StopReason, Message: m}
	}
	return schemas.StreamEvent{
		Type: schemas.StreamError, Reason: m.StopReason, FailureCode: schemas.FailureCodeOf(err), Message: m,
	}
}
