package inbox

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus/inbox/reader"
)

// metrics are those of one inbox.
type metrics struct {
	deliveries *prometheus.CounterVec
	takeovers  prometheus.Counter
}

func newMetrics(r prometheus.Registerer, load func() (inFlight, waiting int)) *metrics {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "loopbus_inbox_deliveries_total", Help: "Deliveries of commands by their outcome.",
		}, []string{"outcome"}),
		takeovers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "loopbus_inbox_takeovers_total", Help: "Changes of the runner's share of the partitions, and new consumers.",
		}),
	}
	for _, outcome := range []string{reader.Acknowledged, reader.Retried, reader.Refused, "rejected"} {
		m.deliveries.WithLabelValues(outcome)
	}
	r.MustRegister(m.deliveries, m.takeovers, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "loopbus_inbox_in_flight", Help: "Commands that are received and not settled.",
	}, func() float64 { n, _ := load(); return float64(n) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "loopbus_inbox_waiting", Help: "Sessions that wait because the runner works on as many as it may.",
	}, func() float64 { _, n := load(); return float64(n) }))
	return m
}

func (m *metrics) count(outcome string) {
	if outcome == reader.Takeover {
		m.takeovers.Inc()
	} else {
		m.deliveries.WithLabelValues(outcome).Inc()
	}
}
