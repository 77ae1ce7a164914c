package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// What others say in an error does not fill the log.
func TestLoggedValuesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\x7f", 1<<20)
	for name, handler := range map[string]func(*bytes.Buffer, *slog.HandlerOptions) slog.Handler{
		"text": func(w *bytes.Buffer, o *slog.HandlerOptions) slog.Handler { return slog.NewTextHandler(w, o) },
		"json": func(w *bytes.Buffer, o *slog.HandlerOptions) slog.Handler { return slog.NewJSONHandler(w, o) },
	} {
		var w bytes.Buffer
		log := slog.New(handler(&w, cli.LogOptions(slog.LevelWarn)))
		log.Info("left out")
		log.Warn("said", "err", fmt.Errorf("list: %w", errors.New(long)), "text", long, slog.Group("of", "it", long),
			"list", []string{long}, "short", errors.New("whole"), "n", 5)
		switch got := w.String(); {
		case len(got) > 100<<10:
			t.Errorf("%s: a line of %d bytes", name, len(got))
		case !strings.Contains(got, "… (1048582 bytes)") || !strings.Contains(got, "whole"):
			t.Errorf("%s: %.200q", name, got)
		case strings.Contains(got, "left out"):
			t.Errorf("%s: the level is not that of the options", name)
		}
	}
}
