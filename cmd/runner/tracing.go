package main

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopbus/loopbus/loop/driver"
)

// tracing makes OpenTelemetry spans of what the driver begins. Without an endpoint no span is sampled, but the trace
// context that clients send travels on in the events all the same.
type tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

func newTracing(ctx context.Context, o *options) (*tracing, error) {
	if o.Observe.OTLP == "" {
		return &tracing{}, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Observe.OTLP+"/v1/traces"))
	if err != nil {
		return nil, err
	}
	return traceTo(sdktrace.WithBatcher(exporter), o.Server.ID), nil
}

func traceTo(to sdktrace.TracerProviderOption, id string) *tracing {
	p := sdktrace.NewTracerProvider(to, sdktrace.WithResource(resource.NewSchemaless(
		attribute.String("service.name", "loopbus-runner"), attribute.String("service.instance.id", id))))
	return &tracing{provider: p, tracer: p.Tracer("github.com/loopbus/loopbus/cmd/runner")}
}

// Start begins a span below a W3C traceparent.
func (t *tracing) Start(ctx context.Context, name, parent string, attrs map[string]string) driver.Span {
	if t.tracer == nil {
		return passed(parent)
	}
	carrier := propagation.MapCarrier{"traceparent": parent}
	ctx = propagation.TraceContext{}.Extract(trace.ContextWithSpan(ctx, nil), carrier)
	kv := make([]attribute.KeyValue, 0, len(attrs))
	for k, v := range attrs {
		kv = append(kv, attribute.String(k, v))
	}
	ctx, s := t.tracer.Start(ctx, name, trace.WithAttributes(kv...))
	return span{ctx, s}
}

func (t *tracing) close() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // what could not be sent is lost; the log has it all
}

// span is a span and the context its children hang on.
type span struct {
	ctx  context.Context
	span trace.Span
}

func (s span) TraceParent() string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(s.ctx, carrier)
	return carrier["traceparent"]
}

func (s span) End(err error) {
	if err != nil {
		s.span.SetStatus(codes.Error, "failed") // error texts may quote content
	}
	s.span.End()
}

// passed is no span: it passes its parent on.
type passed string

func (p passed) TraceParent() string { return string(p) }
func (p passed) End(error)           {}
