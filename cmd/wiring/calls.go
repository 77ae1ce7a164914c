package wiring

import (
	"cmp"

	"github.com/loopbus/loopbus/bus/labels"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Outcomes of calls, besides the failure codes of models.
const (
	outcomeOK      = "ok"
	outcomeError   = "error"
	outcomeAborted = "aborted"
)

// reply counts what a model has said. The model is the one that the run asked, not what the reply says of itself.
func (m *metrics) reply(d *schemas.MessageEnd, s *loop.State) {
	reply, ok := d.Message.Message.(*schemas.AssistantMessage)
	if !ok || d.Interrupted || !asked(d, reply) {
		return
	}
	provider, model := m.model(s.Config.Model)
	profile := m.profiles.Value(s.Config.Profile)
	outcome := outcomeOK
	switch {
	case reply.StopReason == schemas.StopAborted:
		outcome = outcomeAborted
	case reply.StopReason == schemas.StopError:
		outcome = cmp.Or(string(d.FailureCode.Known()), outcomeError)
	}
	m.calls.WithLabelValues(provider, model, profile, outcome).Inc()
	m.callTime.WithLabelValues(provider, model).Observe(float64(d.DurationMs) / 1000)
	used := reply.Usage.Clamped()
	m.cost.WithLabelValues(provider, model, profile).Add(used.Cost.Total)
	for class, n := range map[string]int64{
		"input": used.Input, "output": used.Output, "cache_read": used.CacheRead, "cache_write": used.CacheWrite,
	} {
		m.tokens.WithLabelValues(provider, model, profile, class).Add(float64(n))
	}
}

// asked reports whether a model has said it, and not the driver in place of one that it did not ask.
func asked(d *schemas.MessageEnd, reply *schemas.AssistantMessage) bool {
	return !reply.Failed() || d.DurationMs > 0 || d.FailureCode != "" || reply.Usage.TotalTokens > 0
}

// toolCall counts a result. One that no worker gave has no duration.
func (m *metrics) toolCall(d *schemas.ToolExecutionEnd, s *loop.State) {
	tool, outcome := m.tool(s, d.ToolName), outcomeOK
	if d.IsError {
		outcome = outcomeError
	}
	m.toolCalls.WithLabelValues(tool, m.profiles.Value(s.Config.Profile), outcome).Inc()
	if d.Worker != "" {
		m.toolTime.WithLabelValues(tool).Observe(float64(d.DurationMs) / 1000)
	}
}

// model is a model as labels. A provider that is other has no models.
func (m *metrics) model(ref schemas.ModelRef) (provider, model string) {
	provider = m.providers.Value(cmp.Or(ref.Provider, ref.API))
	if provider == labels.Other || m.models.Value(ref.String()) == labels.Other {
		return provider, labels.Other
	}
	return provider, ref.ID
}

// tool is a tool as a label: models may name any, and only those count that the run has.
func (m *metrics) tool(s *loop.State, name string) string {
	if s.Definition(name) == nil {
		return labels.Other
	}
	return m.tools.Value(name)
}
