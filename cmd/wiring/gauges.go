package wiring

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/schemas"
)

const (
	// queuesAge is how long queue state is cached between scrapes.
	queuesAge = 5 * time.Second
	// queuesTimeout limits how long a scrape waits for the servers.
	queuesTimeout = 2 * time.Second
)

// registerGauges registers values that are read at a scrape: those of this runner's memory, and those that all
// runners see alike.
func (r *Runner) registerGauges(to prometheus.Registerer) {
	gauge := func(name, help string, f func() int) {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "loopbus", Name: name, Help: help},
			func() float64 { return float64(f()) }))
	}
	gauge("sessions_held", "Sessions held in memory, at rest or not.", func() int { return r.Host.Loaded() })
	gauge("approvals_waiting", "Tool calls of all sessions that wait for approval.", r.waiting)
	to.MustRegister(&queues{js: r.Conn.JetStream()})
}

// waiting returns how many calls of all indexed sessions wait for approval.
func (r *Runner) waiting() (n int) {
	for _, e := range r.Index.View().Entries {
		n += e.Summary.Approvals
	}
	return n
}

// queues collects the state of the streams, which is the same for all runners.
type queues struct {
	js jetstream.JetStream

	mu   sync.Mutex
	at   time.Time
	seen []prometheus.Metric
}

var (
	queueMessages = prometheus.NewDesc("loopbus_stream_messages", "Messages that wait in a stream.", []string{"stream"},
		nil)
	queueOldest = prometheus.NewDesc("loopbus_stream_oldest_seconds",
		"Age of the oldest message in a stream, 0 if there is none.", []string{"stream"}, nil)
	deadLetters = prometheus.NewDesc("loopbus_dead_letters_total",
		"Messages that could not be processed, since the stream was made.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (q *queues) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueMessages, queueOldest, deadLetters} {
		c <- d
	}
}

// Collect implements [prometheus.Collector]. It reports no values if the servers do not answer.
func (q *queues) Collect(c chan<- prometheus.Metric) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.at) > queuesAge {
		q.seen, q.at = q.ask(), time.Now()
	}
	for _, m := range q.seen {
		c <- m
	}
}

func (q *queues) ask() (all []prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), queuesTimeout)
	defer cancel()
	for _, name := range []string{schemas.StreamCommands, schemas.StreamTools, schemas.StreamDead} {
		stream, err := q.js.Stream(ctx, name)
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				return all
			}
			continue
		}
		state, oldest := stream.CachedInfo().State, 0.0
		if state.Msgs > 0 {
			oldest = max(time.Since(state.FirstTime).Seconds(), 0)
		}
		all = append(all,
			prometheus.MustNewConstMetric(queueMessages, prometheus.GaugeValue, float64(state.Msgs), name),
			prometheus.MustNewConstMetric(queueOldest, prometheus.GaugeValue, oldest, name))
		if name == schemas.StreamDead {
			all = append(all, prometheus.MustNewConstMetric(deadLetters, prometheus.CounterValue, float64(state.LastSeq)))
		}
	}
	return all
}
