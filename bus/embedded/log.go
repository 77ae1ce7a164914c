package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// recovering is the format of the server's warning when it recovers a stream before the source of that stream. The
// server retries until the source exists, so the warning would only mislead an operator.
const recovering = "JetStream error response for stream %s create source consumer"

// serverLog passes the server's warnings and errors to a logger, discards the rest, and keeps the first fatal error.
type serverLog struct {
	to    *slog.Logger
	fatal chan string
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}

func (l *serverLog) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(format, recovering) {
		level = slog.LevelDebug
	}
	l.to.Log(context.Background(), level, "nats-server", "text", fmt.Sprintf(format, v...))
}

func (l *serverLog) Errorf(format string, v ...any) {
	l.to.Error("nats-server", "text", fmt.Sprintf(format, v...))
}

// Fatalf does not end the process, unlike nats-server's own logger.
func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	select {
	case l.fatal <- text:
	default:
		l.to.Error("nats-server", "text", text)
	}
}
