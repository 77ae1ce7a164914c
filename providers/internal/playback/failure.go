package playback

import (
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// Failure returns a reply that is only an error event with the given text.
func Failure(text string) *Reply {
	return &Reply{
		Steps:   []Step{{Event: schemas.StreamEvent{Type: schemas.StreamError, Reason: schemas.StopError}}},
		Message: schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: text},
	}
}

// failureCode returns the code of a reply that failed, or "". It is derived from the error text, because a prepared
// reply has nothing else that tells it.
func (r *Reply) failureCode() schemas.FailureCode {
	if r.Message.StopReason != schemas.StopError {
		return ""
	}
	return providers.FailureOfText(r.Message.ErrorMessage)
}
