package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// closeTimeout limits how long sending the remaining spans may take when the program ends.
const closeTimeout = 5 * time.Second

// Traces creates OpenTelemetry spans. Without an endpoint it sends nothing, but still propagates the trace context of
// clients. Its methods are safe for concurrent use.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// NewTraces returns traces that are sent to an OTLP/HTTP endpoint; an empty endpoint sends nothing. The caller must
// close them.
func NewTraces(ctx context.Context, endpoint, program, id string) (*Traces, error) {
	if endpoint == "" {
		return &Traces{}, nil
	}
	at, err := url.Parse(strings.TrimSuffix(endpoint, "/") + "/v1/traces")
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	// The exporter follows redirects, with the headers that the environment sets. The choice of a proxy is made for each
	// request, so it refuses other hosts.
	proxy := func(r *http.Request) (*url.URL, error) {
		if r.URL.Host != at.Host || r.URL.Scheme != at.Scheme {
			return nil, errElsewhere
		}
		return http.ProxyFromEnvironment(r)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(at.String()), otlptracehttp.WithProxy(proxy))
	if err != nil {
		return nil, fmt.Errorf("--otlp: %w", err)
	}
	return TracesTo(sdktrace.WithBatcher(exporter), program, id), nil
}

var errElsewhere = errors.New("the collector redirects to another host, which is not followed")

// maxAttribute limits the bytes of an attribute: a vendor chooses the id of a reply.
const maxAttribute = 1024

// brief returns what a span has of a text that others have chosen. It is a copy: thousands of spans wait for a
// collector that does not answer, and the SDK cuts a text without letting go of the rest.
func brief(text string) string {
	if len(text) > maxAttribute {
		text = strings.ToValidUTF8(text[:maxAttribute], "")
	}
	return strings.Clone(text)
}

// TracesTo returns traces with another exporter, for tests.
func TracesTo(to sdktrace.TracerProviderOption, program, id string) *Traces {
	limits := sdktrace.NewSpanLimits() // with those of the environment
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxAttribute
	}
	p := sdktrace.NewTracerProvider(to, sdktrace.WithRawSpanLimits(limits), sdktrace.WithResource(
		resource.NewWithAttributes(semconv.SchemaURL,
			semconv.ServiceName("loopbus-"+program), semconv.ServiceInstanceID(id))))
	return &Traces{provider: p, tracer: p.Tracer("github.com/loopbus/loopbus/cmd/"+program,
		trace.WithSchemaURL(semconv.SchemaURL))}
}

// Close sends the remaining spans. Those that cannot be sent in time are lost; the session logs contain everything.
func (t *Traces) Close() {
	if t.provider == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
}

// below returns a context whose spans are children of a W3C traceparent.
func below(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(trace.ContextWithSpan(ctx, nil),
		propagation.MapCarrier{"traceparent": parent})
}

// traceParent returns the W3C traceparent of the context's span.
func traceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
