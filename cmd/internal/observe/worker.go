package observe

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopbus/loopbus/schemas"
)

// Execute starts the span of a call in a toolworker, as a child of the runner's span of the call. It is a
// message-processing span of the conventions for messaging, so that calls are not counted twice. It is meant for the
// Trace option of a worker, and does nothing without an endpoint.
func (t *Traces) Execute(ctx context.Context, req schemas.ToolRequest) (context.Context, func(outcome string)) {
	if t.tracer == nil {
		return ctx, func(string) {}
	}
	ctx, s := t.tracer.Start(below(ctx, req.TraceParent), "process "+schemas.StreamTools,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			semconv.MessagingSystemKey.String("nats"), semconv.MessagingDestinationName(schemas.StreamTools),
			semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName("process"),
			semconv.GenAIConversationID(req.Session), semconv.GenAIToolName(brief(req.ToolName)),
			semconv.GenAIToolCallID(brief(req.ToolCallID))))
	return ctx, func(outcome string) {
		if outcome != "ok" {
			s.SetAttributes(semconv.ErrorTypeKey.String(outcome))
			s.SetStatus(codes.Error, outcome)
		}
		s.End()
	}
}
