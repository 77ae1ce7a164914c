package main

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// answering executes nothing and answers every call at once, as the bus would.
type answering struct{ host *host.Host }

func (a *answering) Dispatch(ctx context.Context, req schemas.ToolRequest, _ bool) error {
	response := &schemas.ToolResponse{Call: req.Call, ToolCallID: req.ToolCallID, ToolName: req.ToolName,
		Result: schemas.TextResult("ok")}
	go func() {
		_ = a.host.Deliver(context.WithoutCancel(ctx), schemas.Command{ID: "result", Session: req.Session, Data: response},
			nil)
	}()
	return nil
}

func (*answering) Cancel(context.Context, string, schemas.CallKey, string) error { return nil }

func (*answering) Definitions(context.Context) ([]schemas.ToolDefinition, error) {
	return []schemas.ToolDefinition{{Name: "echo"}}, nil
}

// TestTracesFollowThePrompt sends a prompt with a trace context and wants the run, its turns, model calls and tool call
// below it, and the context in the events.
func TestTracesFollowThePrompt(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	exporter := tracetest.NewInMemoryExporter()
	tracer := traceTo(sdktrace.WithSyncer(exporter), "r1")
	store, tools := eventstore.NewMemory(), new(answering)
	ended := make(chan struct{})
	tools.host = host.New(host.Options{
		Open:    func(ctx context.Context, id string) (host.SessionLog, error) { return store.Open(ctx, id) },
		Toolbox: tools,
		Deps: driver.Deps{
			Model: scripted.New(scripted.Calls("", schemas.ToolCall{Name: "echo"}), scripted.Text("done")),
			Tools: tools, Tracer: tracer, Source: "/loopbus/runner/r1",
			OnEvent: func(e schemas.Event) {
				if e.TraceParent == "" || e.TraceParent[3:35] != parent[3:35] {
					t.Errorf("%s has trace context %q", e.Type(), e.TraceParent)
				}
				if e.Type() == schemas.EventAgentEnd {
					close(ended)
				}
			},
		},
	})
	prompt := schemas.Command{ID: "p1", Session: "s1", TraceParent: parent,
		Data: &schemas.Prompt{Input: schemas.Input{Text: "go"}}}
	if err := tools.host.Deliver(t.Context(), prompt, nil); err != nil {
		t.Fatal(err)
	}
	<-ended
	parents := map[string][]string{}
	names := map[string]string{parent[36:52]: "prompt"}
	spans := exporter.GetSpans()
	for _, s := range spans {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	for _, s := range spans {
		parents[s.Name] = append(parents[s.Name], names[s.Parent.SpanID().String()])
	}
	want := map[string][]string{
		"agent run": {"prompt"}, "agent turn": {"agent run", "agent run"},
		"model call": {"agent turn", "agent turn"}, "tool call": {"agent turn"},
	}
	if d := cmp.Diff(want, parents); d != "" {
		t.Errorf("spans and their parents (-want +got):\n%s", d)
	}
}
