package cli

import (
	"fmt"
	"log/slog"
	"strings"
)

// maxLogged is how many bytes of a value are logged. Errors repeat what servers, models and clients say, and a log that
// they can fill fills the disk.
const maxLogged = 4 << 10

// LogOptions returns the options of a program's log: from a level on, with bounded values.
func LogOptions(level slog.Leveler) *slog.HandlerOptions {
	return &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		a.Value = bounded(a.Value)
		return a
	}}
}

// bounded cuts a text that is too long, and says how long it was.
func bounded(v slog.Value) slog.Value {
	var text string
	switch v.Kind() {
	case slog.KindString:
		text = v.String()
	case slog.KindAny:
		text = fmt.Sprint(v.Any())
	}
	if len(text) <= maxLogged {
		return v
	}
	return slog.StringValue(fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxLogged], ""), len(text)))
}
