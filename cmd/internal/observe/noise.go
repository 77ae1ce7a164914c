package observe

import (
	"log"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"golang.org/x/time/rate"
)

// takeNoise redirects what libraries log into the program's log, in its format and level: the output of the standard
// library's log and slog, and OpenTelemetry's export errors.
func takeNoise(to *slog.Logger) {
	to = to.With("from", "library")
	slog.SetDefault(to)
	log.SetFlags(0)
	log.SetOutput(&lines{to: to, limit: rate.NewLimiter(rate.Every(lineEvery), linesAtOnce)})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		to.Warn("OpenTelemetry reported an error", "err", said.ReplaceAllString(unquoted(err.Error()), "$1…"))
	}))
}

// said matches what a collector has said, in an error of OpenTelemetry's exporter, behind what precedes that. It may be
// the credential that the collector was sent.
var said = regexp.MustCompile(`(?s)(: \d{3} |body: |partial success: |malformed MIME header line: ).*`)

// Libraries print at most linesAtOnce lines at once, and then one every lineEvery: the HTTP client prints a line for
// each frame that it does not know, as fast as a server sends them.
const (
	linesAtOnce = 20
	lineEvery   = 10 * time.Second
)

// lines is the output of the standard library's log.
type lines struct {
	to    *slog.Logger
	limit *rate.Limiter

	mu   sync.Mutex
	left int // lines that were not logged
}

// quoted matches what a library quotes: the HTTP client quotes what a server has sent on an idle connection, which may
// be the credential that the server was sent.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

func unquoted(text string) string { return quoted.ReplaceAllString(text, `"…"`) }

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.limit.Allow() {
		l.left++
		return len(line), nil
	}
	to := l.to
	if l.left > 0 {
		to = to.With("left_out", l.left)
	}
	l.left = 0
	to.Info(unquoted(strings.TrimSuffix(string(line), "\n")))
	return len(line), nil
}
