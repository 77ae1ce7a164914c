package playback

import (
	"context"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// Place is where in a session a reply is played. Number counts the session's replies, this one included.
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

// CallID is the id of the tool call at an index of the content: the same whenever the reply is played there.
func (at Place) CallID(contentIndex int) string {
	return fmt.Sprintf("call_%d_%d", at.Number, contentIndex+1)
}

// Play yields the events of the reply. Once ctx is done it yields an error event instead, with stop reason aborted and
// what has been streamed so far. It starts no goroutine.
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

// sleep reports whether ctx let it finish.
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

// first is the message of the start event: who answers, and nothing else yet.
func (r *Reply) first(at Place, stamp int64) *schemas.AssistantMessage {
	return &schemas.AssistantMessage{
		API: at.Model.API, Provider: at.Model.Provider, Model: at.Model.ID,
		StopReason: schemas.StopStop, Timestamp: stamp,
	}
}

// aborted is the event that ends a stream before its step n.
func (r *Reply) aborted(n int, at Place, stamp int64) schemas.StreamEvent {
	m := r.first(at, stamp)
	m.Content = r.streamed(n, at)
	m.StopReason, m.ErrorMessage = schemas.StopAborted, providers.TextAborted
	return schemas.StreamEvent{Type: schemas.StreamError, Reason: schemas.StopAborted, Message: m}
}
