package wiring

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus/labels"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Limits of the values of a label; see [labels.Set].
const (
	maxModels   = 50
	maxProfiles = 50
	maxTools    = 100
	maxCodes    = 50
)

// metrics are the runner's counters. Models, profiles and tools are labels with bounded values: unknown ones, and
// those beyond the limit, become [labels.Other].
type metrics struct {
	providers, models, profiles, tools, codes *labels.Set

	events, runs, calls, tokens, cost, retries, fallbacks *prometheus.CounterVec
	toolCalls, asked, resolved, rejected, deleted         *prometheus.CounterVec
	runTime, callTime, toolTime                           *prometheus.HistogramVec
	foreign                                               prometheus.Counter
}

// newMetrics registers the metrics. Labels are reserved for tools.
func newMetrics(to prometheus.Registerer, tools []string) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "loopbus", Name: name, Help: help}, labels)
		to.MustRegister(c)
		return c
	}
	histogram := func(name, help string, by ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "loopbus", Name: name, Help: help,
			Buckets: labels.Seconds()}, by)
		to.MustRegister(h)
		return h
	}
	m := &metrics{
		providers: labels.NewSet(maxModels), models: labels.NewSet(maxModels), profiles: labels.NewSet(maxProfiles),
		tools: labels.NewSet(maxTools, tools...), codes: labels.NewSet(maxCodes),

		events:    counter("events_total", "Events appended, by type.", "type"),
		runs:      counter("runs_total", "Runs ended, by profile and termination reason.", "profile", "reason"),
		calls:     counter("model_calls_total", "Replies of models, by outcome.", "provider", "model", "profile", "outcome"),
		tokens:    counter("tokens_total", "Tokens used, by class.", "provider", "model", "profile", "class"),
		cost:      counter("cost_usd_total", "Money spent on models, US dollars.", "provider", "model", "profile"),
		retries:   counter("model_retries_total", "Replies that are asked for again.", "provider", "model"),
		fallbacks: counter("model_fallbacks_total", "Runs that went on with their next model.", "provider", "model"),
		toolCalls: counter("tool_calls_total", "Tool calls answered, by outcome.", "tool", "profile", "outcome"),
		asked:     counter("approvals_requested_total", "Tool calls that somebody was asked to approve.", "tool"),
		resolved:  counter("approvals_resolved_total", "Answers to requests for approval.", "approved"),
		rejected:  counter("commands_rejected_total", "Commands rejected, by code.", "code"),
		deleted:   counter("sessions_deleted_total", "Sessions deleted because no rule keeps them, by reason.", "reason"),
		runTime:   histogram("run_seconds", "Duration of runs.", "profile"),
		callTime:  histogram("model_call_seconds", "Duration of model calls.", "provider", "model"),
		toolTime: histogram("tool_execution_seconds", "Duration of tool executions, as their workers report it.",
			"tool"),
		foreign: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "loopbus", Name: "log_foreign_total",
			Help: "Messages found in sessions' logs that no log wrote, and passed over."}),
	}
	to.MustRegister(m.foreign)
	return m
}

// begin creates series before anything happens, so that the first event of a kind is an increase.
func (m *metrics) begin(c schemas.RunConfig, profile string, tools []string) {
	profile = m.profiles.Value(profile)
	for _, reason := range []schemas.TerminationReason{schemas.EndNoToolCalls, schemas.EndError} {
		m.runs.WithLabelValues(profile, m.codes.Value(string(reason)))
	}
	for _, ref := range append([]schemas.ModelRef{c.Model}, c.Fallbacks...) {
		provider, model := m.model(ref)
		m.retries.WithLabelValues(provider, model)
		m.fallbacks.WithLabelValues(provider, model)
		m.calls.WithLabelValues(provider, model, profile, outcomeOK)
		m.calls.WithLabelValues(provider, model, profile, outcomeError)
		m.callTime.WithLabelValues(provider, model)
		m.cost.WithLabelValues(provider, model, profile)
		m.tokens.WithLabelValues(provider, model, profile, "input")
		m.tokens.WithLabelValues(provider, model, profile, "output")
	}
	for _, tool := range append(tools, labels.Other) {
		m.toolCalls.WithLabelValues(m.tools.Value(tool), profile, outcomeOK)
		m.toolTime.WithLabelValues(m.tools.Value(tool))
	}
	m.runTime.WithLabelValues(profile)
	m.asked.WithLabelValues(labels.Other)
	m.resolved.WithLabelValues("no")
	m.deleted.WithLabelValues("age")
	m.deleted.WithLabelValues("size")
	m.rejected.WithLabelValues(m.codes.Value(string(schemas.RejectInvalid)))
}

// deletedFor counts a deleted session. A nil m counts nothing.
func (m *metrics) deletedFor(reason string) {
	if m != nil {
		m.deleted.WithLabelValues(reason).Inc()
	}
}

// then returns a function that counts an event and then calls next, which may be nil.
func (m *metrics) then(next func(schemas.Event, *loop.State)) func(schemas.Event, *loop.State) {
	if next == nil {
		return m.event
	}
	return func(e schemas.Event, s *loop.State) {
		m.event(e, s)
		next(e, s)
	}
}

// event counts an event that was applied to the session's state.
func (m *metrics) event(e schemas.Event, s *loop.State) {
	m.events.WithLabelValues(string(e.Type())).Inc()
	switch d := e.Data.(type) {
	case *schemas.AgentEnd:
		profile := m.profiles.Value(s.Config.Profile)
		m.runs.WithLabelValues(profile, m.codes.Value(string(d.TerminationReason))).Inc()
		m.runTime.WithLabelValues(profile).Observe(float64(d.DurationMs) / 1000)
	case *schemas.MessageEnd:
		m.reply(d, s)
	case *schemas.AutoRetryStart:
		m.retries.WithLabelValues(m.model(s.Config.Model)).Inc()
	case *schemas.ModelFallback:
		m.fallbacks.WithLabelValues(m.model(d.From)).Inc()
	case *schemas.ToolExecutionEnd:
		m.toolCall(d, s)
	case *schemas.ApprovalRequested:
		m.asked.WithLabelValues(m.tool(s, d.ToolName)).Inc()
	case *schemas.ApprovalResolved:
		answer := "no"
		if d.Approved {
			answer = "yes"
		}
		m.resolved.WithLabelValues(answer).Inc()
	case *schemas.CommandRejected:
		m.rejected.WithLabelValues(m.codes.Value(string(d.Code))).Inc()
	}
}
