package playback

import "github.com/loopbus/loopbus/schemas"

// Failure returns the reply that is nothing but an error event with the given text.
func Failure(text string) *Reply {
	return &Reply{
		Steps:   []Step{{Event: schemas.StreamEvent{Type: schemas.StreamError, Reason: schemas.StopError}}},
		Message: schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: text},
	}
}
