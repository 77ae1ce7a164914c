package playback

import (
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// Failure returns the reply that is nothing but an error event with the given text.
func Failure(text string) *Reply {
	return &Reply{
		Steps:   []Step{{Event: schemas.StreamEvent{Type: schemas.StreamError, Reason: schemas.StopError}}},
		Message: schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: text},
	}
}

// failureCode is the code of a reply that fails. A played text stands for what a vendor says: nothing else is known of
// it.
func (r *Reply) failureCode() schemas.FailureCode {
	if r.Message.StopReason != schemas.StopError {
		return ""
	}
	return providers.FailureOfText(r.Message.ErrorMessage)
}
