package observe

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Who makes a program log as fast as it can does not fill its disk, and what else happens is logged all the same.
func TestAMessageIsLoggedOnlySoOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		log := slog.New(newSparing(slog.NewTextHandler(&w, &slog.HandlerOptions{Level: slog.LevelDebug})))
		for range 1000 {
			log.With("session", "s1").Warn("call refused", "call", "c1")
			log.Debug("asked")
		}
		log.Info("stopped")
		time.Sleep(time.Second)
		log.WithGroup("of").Warn("call refused")
		got := w.String()
		for text, want := range map[string]int{"call refused": messagesAtOnce + 1, "asked": 1000, "stopped": 1,
			"of.left_out=800": 1} {
			if n := strings.Count(got, text); n != want {
				t.Errorf("%q is logged %d times, want %d", text, n, want)
			}
		}
	})
}

func TestManyMessagesTakeNoMemory(t *testing.T) {
	t.Parallel()
	c := counts{of: map[string]*count{}}
	for n := range 10 * maxMessages {
		if _, ok := c.take(strings.Repeat("x", n)); !ok || len(c.of) > maxMessages {
			t.Fatalf("message %d: %t, %d are known", n, ok, len(c.of))
		}
	}
}
