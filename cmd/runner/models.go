package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
)

// The models there are, by id; each is its own provider and API.
const (
	modelRehearsal = "rehearsal"
	modelScripted  = "scripted"
)

// typingPace is the pause between words of the rehearsal model where a person watches.
const typingPace = 12 * time.Millisecond

type model interface {
	Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error]
}

// models chooses by the request's model.
type models map[string]model

func newModels(o *options) models {
	pace := time.Duration(0)
	if o.oneShot() && !o.json {
		pace = typingPace
	}
	m := models{modelRehearsal: &rehearsal.Model{Delay: pace}}
	if o.played != nil {
		m[modelScripted] = o.played
	}
	return m
}

// Stream asks the model of the request. Behaviour A1.14: a model that is not there is a failed reply, not a failed call.
func (m models) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	if err := m.check(req.Model); err != nil {
		return func(yield func(schemas.StreamEvent, error) bool) {
			yield(schemas.StreamEvent{Type: schemas.StreamError, Reason: schemas.StopError, Message: &schemas.AssistantMessage{
				API: req.Model.API, Provider: req.Model.Provider, Model: req.Model.ID,
				StopReason: schemas.StopError, ErrorMessage: err.Error(),
			}}, nil)
		}
	}
	return m[req.Model.ID].Stream(ctx, req)
}

func (m models) check(ref schemas.ModelRef) error {
	if m[ref.ID] == nil {
		return fmt.Errorf("no model %q is served here", ref)
	}
	return nil
}

func (o *options) defaultModel() schemas.ModelRef {
	id := o.model
	if id == "" {
		id = modelRehearsal
	}
	return schemas.ModelRef{API: id, Provider: id, ID: id}
}

// keyVariables are where the vendors' keys are looked for.
var keyVariables = []string{
	"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY", "GROQ_API_KEY", "XAI_API_KEY",
	"OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "CEREBRAS_API_KEY", "AZURE_OPENAI_API_KEY",
}

// modelNotice says, in one line, why the model is what it is where none was asked for.
func (o *options) modelNotice(getenv func(string) string) string {
	if o.model != "" {
		return ""
	}
	for _, name := range keyVariables {
		if getenv(name) != "" {
			return name + " is set, but no vendor's API is built in yet: using the model rehearsal, which answers by rule."
		}
	}
	return "No API key in the environment: using the model rehearsal, which needs none and answers by rule."
}
