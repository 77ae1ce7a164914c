package observe

import (
	"log"
	"log/slog"

	"go.opentelemetry.io/otel"
)

// takeNoise redirects what libraries log into the program's log, in its format and level: the output of the standard
// library's log and slog, and OpenTelemetry's export errors.
func takeNoise(to *slog.Logger) {
	to = to.With("from", "library")
	slog.SetDefault(to) // also redirects the log package
	log.SetFlags(0)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { to.Warn("OpenTelemetry reported an error", "err", err) }))
}
