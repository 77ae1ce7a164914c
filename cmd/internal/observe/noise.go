package observe

import (
	"log"
	"log/slog"

	"go.opentelemetry.io/otel"
)

// takeNoise has what libraries say by themselves in a program's log, in its form and at its level: what they print by
// the standard library's log and slog, and what OpenTelemetry cannot send.
func takeNoise(to *slog.Logger) {
	to = to.With("from", "library")
	slog.SetDefault(to) // which is the log package's output, too
	log.SetFlags(0)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { to.Warn("traces or metrics of a library", "err", err) }))
}
