package agent_test

import (
	"context"
	"errors"
	"iter"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// A scriptedModel answers the calls of a scenario in their order.
type scriptedModel struct{ *player }

var _ driver.Model = scriptedModel{}

// Stream records the call at once, as a stream function of the reference does, and plays when it is ranged over.
func (m scriptedModel) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	r, err := m.answer(ctx, req)
	return func(yield func(schemas.StreamEvent, error) bool) {
		if err != nil {
			yield(schemas.StreamEvent{}, err)
			return
		}
		m.play(ctx, req.Model, r, yield)
	}
}

func (m scriptedModel) answer(ctx context.Context, req schemas.ModelRequest) (response, error) {
	call := object{
		"after": m.trace.count(), "model": req.Model.String(), "systemPrompt": req.SystemPrompt,
		"messages": normalMessages(jsonValue(req.Messages)), "tools": toolNames(req.Tools),
	}
	for member, value := range map[string]string{
		"apiKey": req.APIKey, "reasoning": string(req.ThinkingLevel), "sessionId": req.SessionID,
	} {
		if value != "" {
			call[member] = value
		}
	}
	if ctx.Err() != nil {
		call["aborted"] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.llmCalls = append(m.llmCalls, call)
	if len(m.llmCalls) > len(m.LLM) {
		return response{}, errors.New("the scenario has no answer to this model call")
	}
	r := m.LLM[len(m.llmCalls)-1]
	return r, thrown(r.Throw)
}

func toolNames(tools []schemas.ToolDefinition) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

func (m scriptedModel) play(
	ctx context.Context, model schemas.ModelRef, r response, yield func(schemas.StreamEvent, error) bool,
) {
	partial := schemas.AssistantMessage{
		API: model.API, Provider: model.Provider, Model: model.ID, StopReason: schemas.StopStop,
	}
	final := partial
	if r.Message != nil {
		final = *r.Message
	}
	final.API, final.Provider, final.Model = model.API, model.Provider, model.ID
	for _, s := range r.Events {
		m.pause()
		switch {
		case s.Wait != nil:
			if err := m.trace.wait(ctx, *s.Wait); err != nil {
				yield(schemas.StreamEvent{}, err)
				return
			}
		case s.Throw != nil:
			yield(schemas.StreamEvent{}, thrown(s.Throw))
			return
		case s.End: // the stream must end with a terminal event: in the trace this is no difference
			yield(schemas.StreamEvent{Type: schemas.StreamDone, Reason: final.StopReason, Message: &final}, nil)
			return
		default:
			e := s.Event
			switch {
			case e.Type == schemas.StreamStart:
				p := partial
				e.Message = &p
			case e.Terminal():
				f := final
				e.Message = &f
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
