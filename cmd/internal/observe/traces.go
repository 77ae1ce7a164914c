package observe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// closeTimeout is how long spans that were not sent yet may take when the program ends.
const closeTimeout = 5 * time.Second

// Traces makes OpenTelemetry spans. Without an endpoint nothing is sent, but the trace context that clients send
// travels on all the same. All methods may be called concurrently.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// NewTraces returns the traces of a program, sent to an OTLP/HTTP endpoint; an empty one sends nothing. They have to
// be closed.
func NewTraces(ctx context.Context, endpoint, program, id string) (*Traces, error) {
	if endpoint == "" {
		return &Traces{}, nil
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(strings.TrimSuffix(endpoint, "/")+"/v1/traces"))
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	return TracesTo(sdktrace.WithBatcher(exporter), program, id), nil
}

// TracesTo returns the traces of a program, for tests and other exporters.
func TracesTo(to sdktrace.TracerProviderOption, program, id string) *Traces {
	p := sdktrace.NewTracerProvider(to, sdktrace.WithResource(resource.NewWithAttributes(semconv.SchemaURL,
		semconv.ServiceName("loopbus-"+program), semconv.ServiceInstanceID(id))))
	return &Traces{provider: p, tracer: p.Tracer("github.com/loopbus/loopbus/cmd/"+program,
		trace.WithSchemaURL(semconv.SchemaURL))}
}

// Close sends what is left. What cannot be sent in time is lost; the log has it all.
func (t *Traces) Close() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
}

// below returns a context in which spans are children of a W3C traceparent.
func below(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(trace.ContextWithSpan(ctx, nil),
		propagation.MapCarrier{"traceparent": parent})
}

// traceParent is the W3C traceparent of the span that a context is in.
func traceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
