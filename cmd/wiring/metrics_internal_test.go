package wiring

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// hostile is the state of a session whose client has set what it could think of, and what a model then says.
func hostile(i int) (*loop.State, []schemas.EventData) {
	name := func(kind string) string { return fmt.Sprintf("%s-%d", kind, i) }
	s := &loop.State{Session: name("s"), Config: schemas.RunConfig{
		Model:   schemas.ModelRef{Provider: name("provider"), ID: name("model")},
		Profile: name("profile"), Tools: []schemas.ToolDefinition{{Name: name("tool")}},
	}}
	reply := &schemas.AssistantMessage{Provider: name("claimed"), Model: name("claimed"), StopReason: schemas.StopError,
		Usage: schemas.Usage{Input: -1, Output: 5, TotalTokens: 5, Cost: schemas.Cost{Total: -1}}}
	return s, []schemas.EventData{
		&schemas.MessageEnd{Message: schemas.AnyMessage{Message: reply}, FailureCode: schemas.FailureCode(name("code"))},
		&schemas.ToolExecutionEnd{ToolName: name("tool"), Worker: name("worker"), DurationMs: 1},
		&schemas.ToolExecutionEnd{ToolName: name("invented"), IsError: true},
		&schemas.ApprovalRequested{ToolName: name("invented")},
		&schemas.ApprovalResolved{By: name("somebody")},
		&schemas.CommandRejected{Code: schemas.RejectCode(name("code"))},
		&schemas.AutoRetryStart{}, &schemas.ModelFallback{From: s.Config.Model},
		&schemas.AgentEnd{TerminationReason: schemas.TerminationReason(name("reason")), DurationMs: 5},
	}
}

// TestLabelsAreBounded has sessions and models say what they like, and wants a number of series that stays.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, []string{"bash"})
	series := func(upTo int) int {
		for i := range upTo {
			s, events := hostile(i)
			for _, d := range events {
				m.event(schemas.Event{Session: s.Session, Data: d}, s)
			}
		}
		return len(gathered(t, registry))
	}
	some, many := series(200), series(5000)
	if some != many {
		t.Errorf("%d series after 200 sessions, %d after 5000", some, many)
	}
	if many > 2500 {
		t.Errorf("%d series", many)
	}
	all := gathered(t, registry)
	if all["loopbus_tool_calls_total error other other"] == 0 {
		t.Error("invented tools of further profiles are not counted as other")
	}
	if all["loopbus_model_calls_total other unknown other other"] == 0 {
		t.Error("further models are not counted as other")
	}
	bash := &loop.State{Config: schemas.RunConfig{Tools: []schemas.ToolDefinition{{Name: "bash"}}}}
	m.event(schemas.Event{Data: &schemas.ToolExecutionEnd{ToolName: "bash"}}, bash)
	if n := gathered(t, registry)["loopbus_tool_calls_total ok  bash"]; n != 1 {
		t.Errorf("%v calls of a tool that has a label reserved", n)
	}
}

// TestARunIsCounted wants the labels of what a run does.
func TestARunIsCounted(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, nil)
	s := &loop.State{Config: schemas.RunConfig{Model: schemas.ModelRef{Provider: "openai", ID: "gpt"}, Profile: "careful"}}
	said := &schemas.AssistantMessage{StopReason: schemas.StopStop,
		Usage: schemas.Usage{Input: 10, CacheRead: 100, TotalTokens: 110, Cost: schemas.Cost{Total: 0.5}}}
	failed := &schemas.AssistantMessage{StopReason: schemas.StopError}
	unasked := &schemas.AssistantMessage{StopReason: schemas.StopAborted}
	for _, d := range []schemas.EventData{
		&schemas.MessageEnd{Message: schemas.AnyMessage{Message: said}, DurationMs: 1500},
		&schemas.MessageEnd{Message: schemas.AnyMessage{Message: failed}, FailureCode: schemas.FailureRateLimited},
		&schemas.MessageEnd{Message: schemas.AnyMessage{Message: unasked}},
		&schemas.MessageEnd{Message: schemas.AnyMessage{Message: said}, Interrupted: true},
		&schemas.AutoRetryStart{},
	} {
		m.event(schemas.Event{Data: d}, s)
	}
	got := gathered(t, registry)
	for series, want := range map[string]float64{
		"loopbus_model_calls_total gpt ok careful openai":           1,
		"loopbus_model_calls_total gpt rate_limited careful openai": 1,
		"loopbus_model_calls_total gpt aborted careful openai":      0,
		"loopbus_model_call_seconds gpt openai":                     1.5,
		"loopbus_tokens_total input gpt careful openai":             10,
		"loopbus_tokens_total cache_read gpt careful openai":        100,
		"loopbus_cost_usd_total gpt careful openai":                 0.5,
		"loopbus_model_retries_total gpt openai":                    1,
	} {
		if got[series] != want {
			t.Errorf("%s is %v, want %v", series, got[series], want)
		}
	}
}

// gathered has the value of each series, of histograms the sum, by its name and the values of its labels in the order
// of their names.
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
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
		}
	}
	return all
}
