package playback

import (
	"context"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// Place is the position in a session at which a reply is played. Number counts the session's replies, this one
// included.
type Place struct {
	Model  schemas.ModelRef
	Number int
}

// PlaceOf returns the place of the reply to a request.
func PlaceOf(req schemas.ModelRequest) Place {
	at := Place{Model: req.Model, Number: 1}
	for _, m := range req.Messages {
		if m.MessageRole() == schemas.RoleAssistant {
			at.Number++
		}
	}
	return at
}

// CallID returns the id of the tool call at an index of the content. It is the same whenever a reply is played at this
// place.
func (at Place) CallID(contentIndex int) string {
	return fmt.Sprintf("call_%d_%d", at.Number, contentIndex+1)
}

// Play yields the events of the reply. Once ctx is done, it yields an error event with the stop reason aborted and the
// content streamed so far, and returns. now becomes the timestamp of the messages. Play starts no goroutine.
func (r *Reply) Play(ctx context.Context, at Place, now time.Time, yield func(schemas.StreamEvent, error) bool) {
	stamp := now.UnixMilli()
	for i := range r.Steps {
		step := &r.Steps[i]
		if !sleep(ctx, step.Pause) {
			yield(r.aborted(i, at, stamp), nil)
			return
		}
		e := step.Event
		switch e.Type {
		case "":
			continue
		case schemas.StreamStart:
			e.Message = r.first(at, stamp)
		case schemas.StreamDone, schemas.StreamError:
			e.Message = r.message(at, stamp)
			e.FailureCode = r.failureCode()
		default:
			if e.ToolCall != nil {
				e.ToolCall = at.identify(e.ToolCall, e.ContentIndex)
			}
		}
		if !yield(e, nil) || e.Terminal() {
			return
		}
	}
}

// sleep waits for d. It returns false, at once, if ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// identify returns a copy of the call, with an id.
func (at Place) identify(call *schemas.ToolCall, contentIndex int) *schemas.ToolCall {
	c := *call
	if c.ID == "" {
		c.ID = at.CallID(contentIndex)
	}
	return &c
}

// first returns the message of the start event, which only identifies the model.
func (r *Reply) first(at Place, stamp int64) *schemas.AssistantMessage {
	return &schemas.AssistantMessage{
		API: at.Model.API, Provider: at.Model.Provider, Model: at.Model.ID,
		StopReason: schemas.StopStop, Timestamp: stamp,
	}
}

// aborted returns the event that ends a stream before its step n.
func (r *Reply) aborted(n int, at Place, stamp int64) schemas.StreamEvent {
	m := r.first(at, stamp)
	m.Content = r.streamed(n, at)
	m.StopReason, m.ErrorMessage = schemas.StopAborted, providers.TextAborted
	return schemas.StreamEvent{Type: schemas.StreamError, Reason: schemas.StopAborted, Message: m}
}
