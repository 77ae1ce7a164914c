package mcp

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
)

// A secret is removed wherever an output is cut: by the limit of what is kept, by that of a line, and between writes.
func TestSecretsAtCuts(t *testing.T) {
	t.Parallel()
	const token, key = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", "-----BEGIN-----\nfirst-line-of-key\nsecond-line-of-key"
	for _, lines := range []string{"x", "xxxx xxx\n"} {
		for at := range 3 * len(token) {
			for _, size := range []int{1, 100, 1 << 20} {
				var log bustest.Log
				s := &stderr{secret: newRedactor([]string{"Bearer " + token, key}),
					log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
				fill := func(n int) string { return strings.Repeat(lines, n/len(lines)+1)[:n] }
				said := fill(maxLine-2*len(token)+at) + " " + token + fill(keptWords-2*len(token)+at) + key
				for rest := said; rest != ""; {
					n := min(size, len(rest))
					_, _ = s.Write([]byte(rest[:n]))
					rest = rest[n:]
				}
				for _, text := range []string{s.last(), log.String()} {
					for _, part := range []string{token[:4], token[16:20], token[len(token)-4:], "line-of-key"} {
						if strings.Contains(text, part) {
							t.Fatalf("lines %q, at %d, writes of %d: %q is left in %q", lines, at, size, part, text)
						}
					}
				}
			}
		}
	}
}

func TestStderrIsCut(t *testing.T) {
	t.Parallel()
	var log bustest.Log
	s := &stderr{secret: newRedactor(nil),
		log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	_, _ = s.Write([]byte("one\n" + strings.Repeat("y", 3*maxLine)))
	_, _ = s.Write([]byte("yy\ntwo\n"))
	if got := strings.Count(log.String(), "MCP server says"); got != 3 || strings.Count(log.String(), "y") < maxLine {
		t.Errorf("%d lines are logged: %.200s", got, log.String())
	}
	got := strings.TrimPrefix(s.last(), "; it said last: ")
	if len(got) > keptWords || !strings.HasSuffix(got, "yy\ntwo") {
		t.Errorf("the end is %q", got)
	}
}
