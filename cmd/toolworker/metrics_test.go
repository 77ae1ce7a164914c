package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// gathered has the value of each series of a registry, of histograms the count, by name and values of labels.
func gathered(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// untilEnd ends with its context.
func untilEnd(ctx context.Context, _ tools.Call) (schemas.ToolResult, error) {
	<-ctx.Done()
	return schemas.ToolResult{}, tools.Interrupted(ctx)
}

// TestMetricsOfWorkers has two workers of a process execute calls that end in every way.
func TestMetricsOfWorkers(t *testing.T) {
	t.Parallel()
	r, registry := newRig(t), prometheus.NewRegistry()
	traced := make(chan string, 16)
	trace := func(ctx context.Context, req schemas.ToolRequest) (context.Context, func(string)) {
		return ctx, func(outcome string) { traced <- req.ToolName + " " + outcome }
	}
	limited := newTool("limited", "", untilEnd)
	limited.TimeoutMs = 20
	begun := make(chan struct{}, 1)
	cancelled := newTool("cancelled", "", func(ctx context.Context, c tools.Call) (schemas.ToolResult, error) {
		begun <- struct{}{}
		return untilEnd(ctx, c)
	})
	r.serve(2, worker.Options{ID: "w1", Registerer: registry, Trace: trace, Tools: []tools.Tool{
		newTool("echo", "", echo), limited,
		newTool("broken", "", func(context.Context, tools.Call) (schemas.ToolResult, error) {
			return schemas.ToolResult{}, errors.New("no")
		}),
		newTool("panics", "", func(context.Context, tools.Call) (schemas.ToolResult, error) { panic("no") }),
	}})
	r.serve(2, worker.Options{ID: "w2", Registerer: registry, Trace: trace, Tools: []tools.Tool{cancelled}})

	for _, name := range []string{"echo", "limited", "broken", "panics"} {
		r.call(name, `{}`)
		r.answer()
		bustest.Within(t, traced)
	}
	req := r.call("cancelled", `{}`)
	bustest.Within(t, begun)
	if got := gathered(t, registry)["loopbus_toolworker_calls_in_flight cancelled"]; got != 1 {
		t.Errorf("%v calls of cancelled in flight", got)
	}
	cancellation := r.conn.Subjects().Cancel(req.Session, string(req.Call))
	if err := r.conn.NATS().Publish(cancellation, []byte(schemas.Cancellation(req.Nonce))); err != nil {
		t.Fatal(err)
	}
	r.answer()
	if got := bustest.Within(t, traced); got != "cancelled cancelled" {
		t.Errorf("the span ended with %q", got)
	}
	malformed := r.request("echo", `{}`)
	payload, _ := json.Marshal(malformed)
	_, err := r.conn.JetStream().Publish(r.ctx(), r.conn.Subjects().Tool("echo", "s2", "c9"), payload)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the message that is no call is counted", func() bool {
		return gathered(t, registry)["loopbus_toolworker_calls_rejected_total foreign echo"] > 0
	})
	got := gathered(t, registry)
	delete(got, "loopbus_toolworker_calls_rejected_total foreign echo") // it is redelivered
	want := map[string]float64{
		"loopbus_toolworker_calls_total ok echo":             1,
		"loopbus_toolworker_calls_total timeout limited":     1,
		"loopbus_toolworker_calls_total error broken":        1,
		"loopbus_toolworker_calls_total panic panics":        1,
		"loopbus_toolworker_calls_total cancelled cancelled": 1,
	}
	for _, name := range []string{"echo", "limited", "broken", "panics", "cancelled"} {
		want["loopbus_toolworker_calls_in_flight "+name] = 0
		want["loopbus_toolworker_call_seconds "+name] = 1
		want["loopbus_toolworker_calls_rejected_total unsafe "+name] = 0 // labels in the order of their names: reason, tool
		if _, ok := want["loopbus_toolworker_calls_total ok "+name]; !ok {
			want["loopbus_toolworker_calls_total ok "+name] = 0
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("metrics (-want +got):\n%s", d)
	}
}
