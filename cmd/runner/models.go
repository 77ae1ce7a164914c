package main

import (
	"context"
	"iter"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/anthropicmessages"
	"github.com/loopbus/loopbus/providers/azureopenairesponses"
	"github.com/loopbus/loopbus/providers/bedrockconversestream"
	"github.com/loopbus/loopbus/providers/gateway"
	"github.com/loopbus/loopbus/providers/googlegenerativeai"
	"github.com/loopbus/loopbus/providers/googlevertex"
	"github.com/loopbus/loopbus/providers/keys"
	"github.com/loopbus/loopbus/providers/limit"
	"github.com/loopbus/loopbus/providers/mistralconversations"
	"github.com/loopbus/loopbus/providers/openaicompletions"
	"github.com/loopbus/loopbus/providers/openairesponses"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
)

// The models that need no vendor; each is its own provider and API.
const (
	modelRehearsal = "rehearsal"
	modelScripted  = "scripted"
)

func local(name string) schemas.ModelRef {
	return schemas.ModelRef{API: name, Provider: name, ID: name}
}

// apis are the packages that speak with vendors.
var apis = map[string]providers.StreamFunc{
	"anthropic-messages":      anthropicmessages.Stream,
	"azure-openai-responses":  azureopenairesponses.Stream,
	"bedrock-converse-stream": bedrockconversestream.New(),
	"google-generative-ai":    googlegenerativeai.Stream,
	"google-vertex":           googlevertex.New(),
	"mistral-conversations":   mistralconversations.Stream,
	"openai-completions":      openaicompletions.Stream,
	"openai-responses":        openairesponses.Stream,
}

// typingPace is the pause between words of the rehearsal model where a person watches.
const typingPace = 12 * time.Millisecond

// models are the local models by id, those of the catalogue, and those that other runners serve.
type models struct {
	local map[string]bus.Model
	bus   bus.Model // nil: none
	*gateway.Gateway
}

func newModels(o *options, conn *bus.Conn) models {
	pace := time.Duration(0)
	if o.oneShot() && !o.json {
		pace = typingPace
	}
	m := models{bus: bus.NewModelClient(conn, bus.ModelClientOptions{}), local: map[string]bus.Model{modelRehearsal: &rehearsal.Model{Delay: pace}}}
	if o.models.played != nil {
		m.local[modelScripted] = o.models.played
	}
	m.Gateway = gateway.New(gateway.Options{
		Catalogue: o.models.catalogue, APIs: apis, Keys: o.models.sources(conn), Getenv: o.models.getenv, Prepare: o.models.prepare,
		Limiter: limit.New(limit.Options{Concurrency: o.models.concurrency, PerMinute: o.models.perMinute}),
	})
	return m
}

// own are the models that this runner asks itself: what it serves to others, who could else be sent in circles.
func (m models) own() models {
	m.bus = nil
	return m
}

// sources are where keys come from, in the order in which they count.
func (m *modelSettings) sources(conn *bus.Conn) keys.Chain {
	chain := keys.Chain{m.fixed}
	if m.keyService {
		chain = append(chain, bus.NewKeys(conn, bus.KeyOptions{Parse: keys.ParseAnswer}))
	}
	return append(chain, m.keys...)
}

// prepare puts into a request what the session does not say.
func (m *modelSettings) prepare(r *providers.Request) {
	r.Temperature, r.MaxTokens, r.ThinkingBudgets = m.degrees, int64(m.maxOutput), m.budgets
	r.CacheRetention = providers.CacheRetention(m.cacheRetention)
}

// Stream asks the model of the request.
func (m models) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	if l := m.localModel(req.Model); l != nil {
		return l.Stream(ctx, req)
	}
	if m.onBus(req.Model) {
		return m.bus.Stream(ctx, req)
	}
	return m.Gateway.Stream(ctx, req)
}

// check says whether a model can be served. What others serve is not known before they are asked.
func (m models) check(ref schemas.ModelRef) error {
	if m.localModel(ref) != nil || m.onBus(ref) && ref.ID != "" {
		return nil
	}
	return m.Gateway.Check(ref)
}

func (m models) onBus(ref schemas.ModelRef) bool {
	return m.bus != nil && ref.Provider == bus.ModelProvider
}

func (m models) localModel(ref schemas.ModelRef) bus.Model {
	if ref.Provider != "" && ref.Provider != ref.ID {
		return nil
	}
	return m.local[ref.ID]
}
