package embedded

import (
	"fmt"
	"log/slog"
)

// serverLog hands the server's warnings and errors to a logger, leaves out the rest, and keeps the first fatal error.
type serverLog struct {
	to    *slog.Logger
	fatal chan string
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}

func (l *serverLog) Warnf(format string, v ...any) {
	l.to.Warn("nats-server", "text", fmt.Sprintf(format, v...))
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
