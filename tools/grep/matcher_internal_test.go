package grep

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// A large pattern in a long line takes minutes, which a call that has ended does not.
func TestMatchEndsWithItsCall(t *testing.T) {
	t.Parallel()
	m, err := compile(arguments{Pattern: strings.Repeat(`\w`, 300)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begun := time.Now()
	if m.match(ctx, bytes.Repeat([]byte("x"), 4<<20)) {
		t.Error("matches though the call has ended")
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

// What can be interrupted finds what the quick way finds.
func TestInterruptibleMatchIsTheSame(t *testing.T) {
	t.Parallel()
	lines := []string{"", "x", "a x\xffb", "\xff\xfe", "caf\u00e9 \u65e5", "xxxxxxxxxxy", "X y", "\uFFFD"}
	for _, pattern := range []string{`^x`, `x$`, `^$`, `\bx\b`, `\w+\s`, `[^a]`, `(x*)*y`, `\x{FFFD}`, `.`, `\W$`,
		`e|\x{65e5}`, `a{0}`} {
		m, err := compile(arguments{Pattern: pattern})
		if err != nil {
			t.Fatal(err)
		}
		slow := &matcher{m.re, quickSteps + 1}
		for _, line := range lines {
			if got, want := slow.match(t.Context(), []byte(line)), m.match(t.Context(), []byte(line)); got != want {
				t.Errorf("%s in %q: %t, want %t", pattern, line, got, want)
			}
		}
	}
}
