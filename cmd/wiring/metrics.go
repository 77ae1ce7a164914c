package wiring

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/schemas"
)

// metrics is what the runner counts. No label is taken from what users send: series stay bounded.
type metrics struct {
	events   *prometheus.CounterVec
	runs     *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cost     prometheus.Counter
	rejected *prometheus.CounterVec
	foreign  prometheus.Counter
	deleted  *prometheus.CounterVec
	runTime  prometheus.Histogram
	callTime prometheus.Histogram
	toolTime prometheus.Histogram
}

// newMetrics registers the metrics; held tells how many sessions are in memory.
func newMetrics(to prometheus.Registerer, held func() int) *metrics {
	seconds := prometheus.ExponentialBuckets(0.001, 4, 12)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "loopbus", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "loopbus", Name: name, Help: help,
			Buckets: seconds})
	}
	m := &metrics{
		events: counter("events_total", "Events appended, by type.", "type"),
		runs:   counter("runs_total", "Runs ended, by termination reason.", "reason"),
		tokens: counter("tokens_total", "Tokens used, by class.", "class"),
		cost: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "loopbus", Name: "cost_usd_total",
			Help: "Money spent on models, US dollars."}),
		rejected: counter("commands_rejected_total", "Commands rejected, by code.", "code"),
		foreign: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "loopbus", Name: "log_foreign_total",
			Help: "Messages found in sessions' logs that no log wrote, and passed over."}),
		deleted:  counter("sessions_deleted_total", "Sessions deleted because no rule keeps them, by reason.", "reason"),
		runTime:  histogram("run_seconds", "Duration of runs."),
		callTime: histogram("model_call_seconds", "Duration of model calls."),
		toolTime: histogram("tool_execution_seconds", "Duration of tool executions, as their workers report it."),
	}
	to.MustRegister(m.events, m.runs, m.tokens, m.cost, m.rejected, m.foreign, m.deleted, m.runTime, m.callTime, m.toolTime,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "loopbus", Name: "sessions_held", Help: "Sessions held in memory, at rest or not.",
		}, func() float64 { return float64(held()) }))
	return m
}

// deletedFor counts a session that was deleted. A nil m counts nothing.
func (m *metrics) deletedFor(reason string) {
	if m != nil {
		m.deleted.WithLabelValues(reason).Inc()
	}
}

// then counts an event before next, which may be nil, is told of it.
func (m *metrics) then(next func(schemas.Event)) func(schemas.Event) {
	if next == nil {
		return m.event
	}
	return func(e schemas.Event) {
		m.event(e)
		next(e)
	}
}

// event counts one event of a session.
func (m *metrics) event(e schemas.Event) {
	m.events.WithLabelValues(string(e.Type())).Inc()
	switch d := e.Data.(type) {
	case *schemas.AgentEnd:
		m.runs.WithLabelValues(string(d.TerminationReason)).Inc()
		m.runTime.Observe(float64(d.DurationMs) / 1000)
	case *schemas.MessageEnd:
		m.reply(d)
	case *schemas.ToolExecutionEnd:
		m.toolTime.Observe(float64(d.DurationMs) / 1000)
	case *schemas.CommandRejected:
		m.rejected.WithLabelValues(d.Code).Inc()
	}
}

func (m *metrics) reply(d *schemas.MessageEnd) {
	reply, ok := d.Message.Message.(*schemas.AssistantMessage)
	if !ok || d.Interrupted {
		return
	}
	m.callTime.Observe(float64(d.DurationMs) / 1000)
	m.cost.Add(reply.Usage.Cost.Total)
	for class, n := range map[string]int64{
		"input": reply.Usage.Input, "output": reply.Usage.Output,
		"cache_read": reply.Usage.CacheRead, "cache_write": reply.Usage.CacheWrite,
	} {
		m.tokens.WithLabelValues(class).Add(float64(n))
	}
}
