package wiring

import (
	"cmp"

	"github.com/loopbus/loopbus/bus/labels"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Outcomes of calls, in addition to the failure codes of models.
const (
	outcomeOK      = "ok"
	outcomeError   = "error"
	outcomeAborted = "aborted"
)

// reply counts a reply of a model. Labels use the model that the run requested, not the one that the reply names.
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

// asked reports whether a model was called for the reply, rather than the driver closing it without a call.
func asked(d *schemas.MessageEnd, reply *schemas.AssistantMessage) bool {
	return !reply.Failed() || d.DurationMs > 0 || d.FailureCode != "" || reply.Usage.TotalTokens > 0
}

// toolCall counts a result. A result that came from no worker has no duration.
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

// model returns the labels of a model. A provider that is [labels.Other] has no model label of its own.
func (m *metrics) model(ref schemas.ModelRef) (provider, model string) {
	provider = m.providers.Value(cmp.Or(ref.Provider, ref.API))
	if provider == labels.Other || m.models.Value(ref.String()) == labels.Other {
		return provider, labels.Other
	}
	return provider, ref.ID
}

// tool returns the label of a tool. Models can name any tool, so only those of the run are labelled by name.
func (m *metrics) tool(s *loop.State, name string) string {
	if s.Definition(name) == nil {
		return labels.Other
	}
	return m.tools.Value(name)
}
