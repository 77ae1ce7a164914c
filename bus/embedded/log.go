package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// recovering is how the server's warning begins when a stream is recovered before another that it takes messages from.
// The server asks again until the other stream is there, so the warning says nothing to whoever reads a log.
const recovering = "JetStream error response for stream %s create source consumer"

// serverLog hands the server's warnings and errors to a logger, leaves out the rest, and keeps the first fatal error.
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

// Fatalf must not end the process, as nats-server's own logger does.
func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	select {
	case l.fatal <- text:
	default:
		l.to.Error("nats-server", "text", text)
	}
}
