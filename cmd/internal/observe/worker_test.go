package observe_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopbus/loopbus/cmd/internal/observe"
	"github.com/loopbus/loopbus/schemas"
)

// TestAWorkersSpanIsBelowTheRunners has a worker execute a call that a runner has traced.
func TestAWorkersSpanIsBelowTheRunners(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	traces := observe.TracesTo(sdktrace.WithSyncer(exporter), "toolworker", "w1")
	ctx, end := traces.Execute(t.Context(), schemas.ToolRequest{Session: "s1", ToolName: "bash", ToolCallID: "call_1",
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	if !trace.SpanContextFromContext(ctx).IsValid() {
		t.Error("the tool's context has no span")
	}
	end("timeout")
	s := exporter.GetSpans()[0]
	if s.Name != "process AGENT_TOOL" || s.SpanKind != trace.SpanKindConsumer ||
		s.Parent.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("span %s, kind %s, below %s", s.Name, s.SpanKind, s.Parent.SpanID())
	}
	if d := cmp.Diff(map[string]string{
		"messaging.system": "nats", "messaging.destination.name": "AGENT_TOOL", "messaging.operation.type": "process",
		"messaging.operation.name": "process", "gen_ai.conversation.id": "s1", "gen_ai.tool.name": "bash",
		"gen_ai.tool.call.id": "call_1", "error.type": "timeout",
	}, attributes(s)); d != "" {
		t.Errorf("attributes (-want +got):\n%s", d)
	}
}

// TestSpansAreSent wants what is traced at the endpoint once the traces are closed, and nothing without one.
func TestSpansAreSent(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.Path }))
	defer server.Close()
	for _, endpoint := range []string{server.URL + "/", ""} {
		traces, err := observe.NewTraces(t.Context(), endpoint, "toolworker", "w1")
		if err != nil {
			t.Fatal(err)
		}
		_, end := traces.Execute(t.Context(), schemas.ToolRequest{Session: "s1", ToolName: "bash"})
		end("ok")
		traces.Close()
	}
	close(paths)
	var got []string
	for p := range paths {
		got = append(got, p)
	}
	if d := cmp.Diff([]string{"/v1/traces"}, got); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
}
