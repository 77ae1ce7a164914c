package worker

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus/labels"
	"github.com/loopbus/loopbus/tools"
)

// maxTools limits the values of the label tool in one process, because MCP servers may add tools at any time.
const maxTools = 100

// Outcomes of calls that were executed.
const (
	outcomeOK        = "ok"
	outcomeError     = "error"
	outcomePanic     = "panic"
	outcomeTimeout   = "timeout"
	outcomeCancelled = "cancelled"
	outcomeStopped   = "stopped" // cancelled by the shutdown of the worker
)

// Reasons why calls are not executed.
const (
	rejectForeign   = "foreign"   // no runner sent the message: it is a reply of a NATS server
	rejectMalformed = "malformed" // answered with an error that names the mistake
	rejectUnsafe    = "unsafe"    // started before and not safe to repeat: answered that the outcome is unknown
	rejectAbandoned = "abandoned" // no caller waits for the answer
)

// metrics counts calls. It is one collector, so that all workers of a process share one set of label values. A nil
// *metrics counts nothing.
type metrics struct {
	tools    *labels.Set
	calls    *prometheus.CounterVec
	took     *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	rejects  *prometheus.CounterVec
}

// newMetrics registers the metrics, or returns those that another worker has registered.
func newMetrics(registerer prometheus.Registerer) *metrics {
	if registerer == nil {
		return nil
	}
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "loopbus", Subsystem: "toolworker", Name: name, Help: help}
	}
	m := &metrics{
		tools: labels.NewSet(maxTools),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts(opts("calls_total", "Calls executed, by outcome.")),
			[]string{"tool", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "loopbus", Subsystem: "toolworker",
			Name: "call_seconds", Help: "Duration of calls.", Buckets: labels.Seconds()}, []string{"tool"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("calls_in_flight", "Calls at work.")),
			[]string{"tool"}),
		rejects: prometheus.NewCounterVec(prometheus.CounterOpts(opts("calls_rejected_total",
			"Calls not executed, by reason.")), []string{"tool", "reason"}),
	}
	var registered prometheus.AlreadyRegisteredError
	switch err := registerer.Register(m); {
	case errors.As(err, &registered):
		return registered.ExistingCollector.(*metrics)
	case err != nil:
		panic(err) // as MustRegister does: another collector uses the same metric names
	}
	return m
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.took, m.inFlight, m.rejects}
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(c chan<- *prometheus.Desc) {
	for _, collector := range m.all() {
		collector.Describe(c)
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(c chan<- prometheus.Metric) {
	for _, collector := range m.all() {
		collector.Collect(c)
	}
}

// initialize creates the series of the tools, so that they are exported before the first call.
func (m *metrics) initialize(list []tools.Tool) {
	if m == nil {
		return
	}
	for _, t := range list {
		name := m.tools.Value(t.Name)
		m.inFlight.WithLabelValues(name)
		m.calls.WithLabelValues(name, outcomeOK)
		m.took.WithLabelValues(name)
		m.rejects.WithLabelValues(name, rejectUnsafe)
	}
}

// toolMetrics are the metrics of one tool.
type toolMetrics struct {
	*metrics
	name string
}

func (m *metrics) tool(name string) toolMetrics {
	if m == nil {
		return toolMetrics{}
	}
	return toolMetrics{m, m.tools.Value(name)}
}

func (m toolMetrics) begin() {
	if m.metrics != nil {
		m.inFlight.WithLabelValues(m.name).Inc()
	}
}

func (m toolMetrics) end(outcome string, took time.Duration) {
	if m.metrics != nil {
		m.inFlight.WithLabelValues(m.name).Dec()
		m.calls.WithLabelValues(m.name, outcome).Inc()
		m.took.WithLabelValues(m.name).Observe(took.Seconds())
	}
}

func (m toolMetrics) rejected(reason string) {
	if m.metrics != nil {
		m.rejects.WithLabelValues(m.name, reason).Inc()
	}
}

// outcomeOf returns the outcome of a call that returned err. call is its context.
func outcomeOf(call context.Context, err error) string {
	var panicked *tools.PanicError
	var limit *tools.TimeLimitError
	switch {
	case err == nil:
		return outcomeOK
	case errors.As(err, &panicked):
		return outcomePanic
	case errors.As(err, &limit) || errors.As(context.Cause(call), &limit):
		return outcomeTimeout
	case errors.Is(context.Cause(call), errStopping):
		return outcomeStopped
	case call.Err() != nil:
		return outcomeCancelled
	}
	return outcomeError
}
