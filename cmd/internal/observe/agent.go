package observe

import (
	"cmp"
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// Start starts a span of a driver, by the semantic conventions for generative AI. The conventions have no turns;
// those are spans named "agent turn". No span contains message content.
func (t *Traces) Start(ctx context.Context, s driver.SpanStart) driver.Span {
	if t.tracer == nil {
		return passed(s.Parent)
	}
	name, kind, attrs := described(s)
	ctx, began := t.tracer.Start(below(ctx, s.Parent), name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	return span{traceParent(ctx), began}
}

// described returns the name, kind and attributes of a new span.
func described(s driver.SpanStart) (name string, kind trace.SpanKind, attrs []attribute.KeyValue) {
	kind = trace.SpanKindInternal
	attrs = append(attrs, semconv.GenAIConversationID(s.Session))
	if s.Profile != "" {
		attrs = append(attrs, semconv.GenAIAgentName(s.Profile))
	}
	switch s.Kind {
	case driver.SpanRun:
		name, attrs = "invoke_agent", append(attrs, semconv.GenAIOperationNameInvokeAgent)
		if s.Profile != "" {
			name += " " + s.Profile
		}
	case driver.SpanModelCall:
		name, kind = "chat "+brief(s.Model.ID), trace.SpanKindClient
		attrs = append(attrs, semconv.GenAIOperationNameChat, semconv.GenAIRequestModel(brief(s.Model.ID)),
			semconv.GenAIRequestStream(true), provider(s.Model))
	case driver.SpanToolCall:
		name = "execute_tool " + brief(s.Tool)
		attrs = append(attrs, semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(brief(s.Tool)),
			semconv.GenAIToolCallID(brief(s.ToolCallID)), semconv.GenAIToolType("function"))
	default:
		name = "agent " + string(s.Kind)
	}
	return name, kind, attrs
}

// providers maps providers of the catalogue to the names of the conventions. Others keep their own name.
var providers = map[string]attribute.KeyValue{
	"amazon-bedrock":         semconv.GenAIProviderNameAWSBedrock,
	"anthropic":              semconv.GenAIProviderNameAnthropic,
	"azure-openai-responses": semconv.GenAIProviderNameAzureAIOpenAI,
	"deepseek":               semconv.GenAIProviderNameDeepseek,
	"google":                 semconv.GenAIProviderNameGCPGemini,
	"google-vertex":          semconv.GenAIProviderNameGCPVertexAI,
	"groq":                   semconv.GenAIProviderNameGroq,
	"mistral":                semconv.GenAIProviderNameMistralAI,
	"openai":                 semconv.GenAIProviderNameOpenAI,
	"xai":                    semconv.GenAIProviderNameXAI,
}

func provider(m schemas.ModelRef) attribute.KeyValue {
	if known, ok := providers[m.Provider]; ok {
		return known
	}
	return semconv.GenAIProviderNameKey.String(cmp.Or(m.Provider, m.API, "_OTHER"))
}

// span is a span of a driver.
type span struct {
	parent string // traceparent for its children
	span   trace.Span
}

func (s span) TraceParent() string { return s.parent }

func (s span) End(e driver.SpanEnd) {
	if e.Reply != nil {
		s.span.SetAttributes(replied(e.Reply)...)
	}
	if e.Usage != (schemas.Usage{}) {
		s.span.SetAttributes(used(e.Usage)...)
	}
	if e.Failure != "" {
		s.span.SetAttributes(semconv.ErrorTypeKey.String(e.Failure))
		s.span.SetStatus(codes.Error, e.Failure)
	}
	s.span.End()
}

// replied returns the attributes of a model's reply, without its content.
func replied(m *schemas.AssistantMessage) []attribute.KeyValue {
	attrs := append(used(m.Usage), semconv.GenAIResponseFinishReasons(string(m.StopReason)),
		semconv.GenAIResponseModel(brief(cmp.Or(m.ResponseModel, m.Model))))
	if m.ResponseID != "" {
		attrs = append(attrs, semconv.GenAIResponseID(brief(m.ResponseID)))
	}
	return attrs
}

// used returns the attributes for tokens. The conventions include cached tokens in the input.
func used(u schemas.Usage) []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.GenAIUsageInputTokens(int(u.Input + u.CacheRead + u.CacheWrite)),
		semconv.GenAIUsageOutputTokens(int(u.Output)),
		semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)),
		semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)),
		attribute.Float64("loopbus.cost_usd", u.Cost.Total),
	}
}

// passed is a span that creates nothing: it passes its parent's traceparent on.
type passed string

func (p passed) TraceParent() string { return string(p) }
func (passed) End(driver.SpanEnd)    {}
