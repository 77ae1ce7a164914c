package worker

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus/labels"
	"github.com/loopbus/loopbus/tools"
)

// maxTools is how many tools are labels, of all workers of a process; tools of MCP servers come and go.
const maxTools = 100

// Outcomes of calls that were executed.
const (
	outcomeOK        = "ok"
	outcomeError     = "error"
	outcomePanic     = "panic"
	outcomeTimeout   = "timeout"
	outcomeCancelled = "cancelled"
	outcomeStopped   = "stopped" // with the worker
)

// Reasons why calls are not executed.
const (
	rejectForeign   = "foreign"   // nobody has asked for a call
	rejectMalformed = "malformed" // answered with what is wrong
	rejectUnsafe    = "unsafe"    // begun before, and not to be begun twice: answered that the outcome is unknown
	rejectAbandoned = "abandoned" // the caller has left
)

// metrics counts calls. It is one collector, so that the workers of a process have one set of labels. A nil one counts
// nothing.
type metrics struct {
	tools    *labels.Set
	calls    *prometheus.CounterVec
	took     *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	refused  *prometheus.CounterVec
}

// newMetrics registers the metrics, or returns those that another worker has registered.
func newMetrics(to prometheus.Registerer) *metrics {
	if to == nil {
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
		refused: prometheus.NewCounterVec(prometheus.CounterOpts(opts("calls_rejected_total",
			"Calls not executed, by reason.")), []string{"tool", "reason"}),
	}
	var there prometheus.AlreadyRegisteredError
	switch err := to.Register(m); {
	case errors.As(err, &there):
		return there.ExistingCollector.(*metrics)
	case err != nil:
		panic(err) // as prometheus does: somebody else has metrics of these names
	}
	return m
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.took, m.inFlight, m.refused}
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(c chan<- *prometheus.Desc) {
	for _, one := range m.all() {
		one.Describe(c)
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(c chan<- prometheus.Metric) {
	for _, one := range m.all() {
		one.Collect(c)
	}
}

// announce has the tools in the metrics before they are called.
func (m *metrics) announce(list []tools.Tool) {
	if m == nil {
		return
	}
	for _, t := range list {
		name := m.tools.Value(t.Name)
		m.inFlight.WithLabelValues(name)
		m.calls.WithLabelValues(name, outcomeOK)
		m.took.WithLabelValues(name)
		m.refused.WithLabelValues(name, rejectUnsafe)
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
		m.refused.WithLabelValues(m.name, reason).Inc()
	}
}

// outcomeOf says how a call has ended that returned err. call is its context.
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
