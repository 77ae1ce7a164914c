package observe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/cmd/internal/observe"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// answering executes nothing and answers every call at once, as the bus would.
type answering struct{ host *host.Host }

func (a *answering) Dispatch(ctx context.Context, req schemas.ToolRequest, _ bool) error {
	response := &schemas.ToolResponse{Call: req.Call, ToolCallID: req.ToolCallID, ToolName: req.ToolName,
		Result: schemas.TextResult("a-secret-result"), IsError: true, Nonce: req.Nonce}
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

// traced has a run of two turns with a call of echo traced below a parent.
func traced(t *testing.T, parent string) tracetest.SpanStubs {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	store, tools := eventstore.NewMemory(), new(answering)
	ended := make(chan struct{})
	said := scripted.Text("done")
	said.Message.Usage = schemas.Usage{Input: 10, CacheRead: 100, CacheWrite: 1000, Output: 7, TotalTokens: 1117}
	said.Message.ResponseID = strings.Repeat("x", 1<<20)
	tools.host = host.New(host.Options{
		Open:     func(ctx context.Context, id string) (host.SessionLog, error) { return store.Open(ctx, id) },
		Toolbox:  tools,
		Defaults: schemas.RunConfig{Model: schemas.ModelRef{Provider: "google", ID: "gemini-x"}},
		Deps: driver.Deps{
			Model: scripted.New(scripted.Calls("", schemas.ToolCall{ID: "call_1", Name: "echo"}), said),
			Tools: tools, Tracer: observe.TracesTo(sdktrace.WithSyncer(exporter), "runner", "r1"),
			Source: "/loopbus/runner/r1",
			OnEvent: func(e schemas.Event, _ *loop.State) {
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
		Data: &schemas.Prompt{Input: schemas.Input{Text: "a-secret-prompt"}}}
	if err := tools.host.Deliver(t.Context(), prompt, nil); err != nil {
		t.Fatal(err)
	}
	bustest.Within(t, ended)
	if err := tools.host.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return exporter.GetSpans()
}

func attributes(s tracetest.SpanStub) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// TestTracesFollowThePrompt sends a prompt with a trace context and wants the run, its turns, model calls and tool call
// below it, by the conventions, without content, and the context in the events.
func TestTracesFollowThePrompt(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	parents, kinds := map[string][]string{}, map[string]trace.SpanKind{}
	names := map[string]string{parent[36:52]: "prompt"}
	spans := traced(t, parent)
	for _, s := range spans {
		names[s.SpanContext.SpanID().String()] = s.Name
	}
	got := map[string]map[string]string{}
	for _, s := range spans {
		parents[s.Name] = append(parents[s.Name], names[s.Parent.SpanID().String()])
		kinds[s.Name], got[s.Name] = s.SpanKind, attributes(s)
		if strings.Contains(fmt.Sprint(s), "a-secret") {
			t.Errorf("span %s has content: %+v", s.Name, s)
		}
		if failed := s.Status.Code == codes.Error; failed != (s.Name == "execute_tool echo") {
			t.Errorf("span %s has status %+v", s.Name, s.Status)
		}
	}
	want := map[string][]string{
		"invoke_agent": {"prompt"}, "agent turn": {"invoke_agent", "invoke_agent"},
		"chat gemini-x": {"agent turn", "agent turn"}, "execute_tool echo": {"agent turn"},
	}
	if d := cmp.Diff(want, parents); d != "" {
		t.Errorf("spans and their parents (-want +got):\n%s", d)
	}
	internal := trace.SpanKindInternal
	if d := cmp.Diff(map[string]trace.SpanKind{"invoke_agent": internal, "agent turn": internal,
		"chat gemini-x": trace.SpanKindClient, "execute_tool echo": internal}, kinds); d != "" {
		t.Errorf("kinds (-want +got):\n%s", d)
	}
	tokens := map[string]string{"gen_ai.usage.input_tokens": "1110", "gen_ai.usage.output_tokens": "7",
		"gen_ai.usage.cache_read.input_tokens": "100", "gen_ai.usage.cache_creation.input_tokens": "1000",
		"loopbus.cost_usd": "0"}
	and := func(more map[string]string) map[string]string {
		for k, v := range tokens {
			more[k] = v
		}
		return more
	}
	if d := cmp.Diff(map[string]map[string]string{
		"invoke_agent": and(map[string]string{"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "s1"}),
		"agent turn":   {"gen_ai.conversation.id": "s1"},
		"chat gemini-x": and(map[string]string{"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "s1",
			"gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "gemini-x", "gen_ai.request.stream": "true",
			"gen_ai.response.model": "gemini-x", "gen_ai.response.finish_reasons": `["stop"]`,
			"gen_ai.response.id": strings.Repeat("x", 1024)}), // the vendor's is longer
		"execute_tool echo": {"gen_ai.operation.name": "execute_tool", "gen_ai.conversation.id": "s1",
			"gen_ai.tool.name": "echo", "gen_ai.tool.call.id": "call_1", "gen_ai.tool.type": "function",
			"error.type": "error"},
	}, got); d != "" {
		t.Errorf("attributes (-want +got):\n%s", d)
	}
}

// The headers for the collector go to no other host. The test is not parallel: it sets the environment.
func TestTracesAreNotRedirected(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=secret")
	got := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got <- "the other host got " + r.Header.Get("x-team")
	}))
	defer other.Close()
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- "the collector got " + r.Header.Get("x-team")
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer collector.Close()
	traces, err := observe.NewTraces(t.Context(), collector.URL, "runner", "r1")
	if err != nil {
		t.Fatal(err)
	}
	_, end := traces.Execute(t.Context(), schemas.ToolRequest{ToolName: "echo"})
	end("ok")
	traces.Close()
	if first := <-got; first != "the collector got secret" || len(got) > 0 {
		t.Errorf("%s, and %d more", first, len(got))
	}
}

// What a vendor calls its replies and calls is not kept whole while spans wait for a collector that does not answer.
func TestSpansKeepLittle(t *testing.T) { // not parallel: it measures the heap
	const spans, size = 50, 1 << 20
	exporter := tracetest.NewInMemoryExporter()
	traces := observe.TracesTo(sdktrace.WithSyncer(exporter), "runner", "r1")
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for range spans {
		long := func() string { return strings.Repeat("x", size) }
		traces.Start(t.Context(), driver.SpanStart{Kind: driver.SpanToolCall, Tool: long(), ToolCallID: long()}).
			End(driver.SpanEnd{})
		traces.Start(t.Context(), driver.SpanStart{Kind: driver.SpanModelCall, Model: schemas.ModelRef{ID: "m"}}).
			End(driver.SpanEnd{Reply: &schemas.AssistantMessage{ResponseID: long(), ResponseModel: long()}})
		_, end := traces.Execute(t.Context(), schemas.ToolRequest{Session: "s1", ToolName: long(), ToolCallID: long()})
		end("ok")
	}
	if n := len(exporter.GetSpans()); n != 3*spans {
		t.Fatalf("%d spans", n)
	}
	if kept := heap() - before; kept > 10*size {
		t.Errorf("%d spans keep %d bytes", 3*spans, kept)
	}
	runtime.KeepAlive(exporter)
}
