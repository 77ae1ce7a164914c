package models

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Provider is the provider, and the API, of models that others ask for us. The id of such a model is a model's
// name where it is served: provider/id, or an id that is enough there.
const Provider = "bus"

const (
	modelQueue     = "models"         // the queue group of those who serve
	maxModelBytes  = 64 << 20         // of a request, and of one event
	maxTotal       = 256 << 20        // of all requests at work
	modelHeartbeat = time.Second      // between two messages of a call, at most
	idleTimeout    = 5 * time.Second  // without a message, after which the other side counts as lost
	modelUpload    = 30 * time.Second // that the parts of a request may take
	modelLast      = time.Second      // that a cancelled call gets to say how far it came
)

// A Model answers requests with a stream that ends with a done or an error event. Stream may be called concurrently,
// and ends soon after its context does.
type Model interface {
	Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error]
}

// What these errors say is the text of a failed reply. Their codes say whether it is asked for again.
var (
	errNoModels = schemas.NewFailure(schemas.FailureInvalidRequest,
		"no runner serves models (start one with --serve-models)")
	errModelLost  = schemas.NewFailure(schemas.FailureConnection, "connection lost")
	errModelNoEnd = schemas.NewFailure(schemas.FailureConnection, "model stream ended without a terminal event")
	errModelsFull = schemas.NewFailure(schemas.FailureOverloaded,
		"too many requests: the runner that serves models answers as many as it may")
	errModelsBytes = schemas.NewFailure(schemas.FailureOverloaded,
		"too many requests: the runner that serves models has taken in as much of others as it may")
	errModelsStop = schemas.NewFailure(schemas.FailureConnection,
		"connection lost: the runner that serves the model stops")
	errModelGone = errors.New("the caller is gone")
	errCancelled = errors.New("the caller has cancelled the call")
)

const textModelAborted = "Request was aborted"

// failedReply is the end of a call that failed; of one that was cancelled if ctx has ended.
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
