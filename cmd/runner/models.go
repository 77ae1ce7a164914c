package main

import (
	"context"
	"iter"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/all"
	"github.com/loopbus/loopbus/providers/gateway"
	"github.com/loopbus/loopbus/providers/keys"
	"github.com/loopbus/loopbus/providers/limit"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/progress"
)

// Models without a vendor; each is its own provider and API.
const (
	modelRehearsal = "rehearsal"
	modelScripted  = "scripted"
)

func local(name string) schemas.ModelRef {
	return schemas.ModelRef{API: name, Provider: name, ID: name}
}

// typingPace is the delay between words of the model rehearsal when a person is watching.
const typingPace = 12 * time.Millisecond

// modelSet combines local models by id, the models of the catalogue, and models that other runners serve.
type modelSet struct {
	local map[string]models.Model
	bus   models.Model // nil: none
	*gateway.Gateway
}

func newModels(o *options, conn *bus.Conn) modelSet {
	pace := time.Duration(0)
	if o.once {
		pace = typingPace
	}
	m := modelSet{
		bus:   models.NewClient(conn, models.ClientOptions{StallTimeout: progress.Patience * o.Limits.IdleTimeout}),
		local: map[string]models.Model{modelRehearsal: &rehearsal.Model{Delay: pace}},
	}
	if o.Models.played != nil {
		m.local[modelScripted] = o.Models.played
	}
	m.Gateway = gateway.New(gateway.Options{
		Catalogue: o.Models.catalogue, APIs: all.APIs(), Keys: o.Models.sources(conn), Getenv: o.Models.getenv,
		Prepare: o.Models.prepare,
		Limiter: limit.New(limit.Options{Concurrency: o.Models.Concurrency, PerMinute: o.Models.PerMinute}),
	})
	return m
}

// own returns the models that this runner calls itself. Only these are served to other runners; otherwise calls could
// circulate between runners.
func (m modelSet) own() modelSet {
	m.bus = nil
	return m
}

// sources returns the sources of API keys in order of precedence.
func (m *modelSettings) sources(conn *bus.Conn) keys.Chain {
	chain := keys.Chain{m.fixed}
	if m.KeyService {
		chain = append(chain, bus.NewKeys(conn, bus.KeyOptions{Parse: keys.ParseAnswer}))
	}
	return append(chain, m.keys...)
}

// prepare fills in the parameters of a request that the session leaves open.
func (m *modelSettings) prepare(r *providers.Request) {
	r.Temperature, r.ThinkingBudgets = m.degrees, m.budgets
	if r.MaxTokens == 0 {
		r.MaxTokens = int64(m.MaxOutput)
	}
	r.CacheRetention = providers.CacheRetention(m.CacheRetention)
}

// Stream calls the model of the request.
func (m modelSet) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	if l := m.localModel(req.Model); l != nil {
		return l.Stream(ctx, req)
	}
	if m.onBus(req.Model) {
		return m.bus.Stream(ctx, req)
	}
	return m.Gateway.Stream(ctx, req)
}

// check returns an error if a model cannot be called. Models of other runners are known only when they are called.
func (m modelSet) check(ref schemas.ModelRef) error {
	if m.localModel(ref) != nil || m.onBus(ref) && ref.ID != "" {
		return nil
	}
	return m.Gateway.Check(ref)
}

func (m modelSet) onBus(ref schemas.ModelRef) bool {
	return m.bus != nil && ref.Provider == models.Provider
}

func (m modelSet) localModel(ref schemas.ModelRef) models.Model {
	if ref.Provider != "" && ref.Provider != ref.ID {
		return nil
	}
	return m.local[ref.ID]
}

// window returns the context window of a model in tokens, 0 if the catalogue does not know it. Models served by other
// runners have the names of the catalogue.
func (m *modelSettings) window(ref schemas.ModelRef) int64 {
	found, err := m.catalogue.Find(ref)
	if ref.Provider == models.Provider {
		found, err = m.catalogue.Resolve(ref.ID)
	}
	if err != nil {
		return 0
	}
	return found.ContextWindow
}
