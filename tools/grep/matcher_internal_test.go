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
		`e|\x{65e5}`, `a{0}`, `x`, `xy`, `(?i)x y`, `(x)`} {
		m, err := compile(arguments{Pattern: pattern})
		if err != nil {
			t.Fatal(err)
		}
		slow := &matcher{re: m.re, instructions: quickSteps + 1}
		for _, line := range lines {
			if got, want := slow.match(t.Context(), []byte(line)), m.match(t.Context(), []byte(line)); got != want {
				t.Errorf("%s in %q: %t, want %t", pattern, line, got, want)
			}
		}
	}
}

// A text is found in time that is proportional to its size and that of the line. Package regexp would follow each
// beginning of it, and the search of package bytes compares at each place where a hash is the same, as with this one.
func TestALongTextInALongLine(t *testing.T) {
	t.Parallel()
	for _, args := range []arguments{
		{Pattern: strings.Repeat("a", 4089) + "x5H%%UC"}, {Pattern: strings.Repeat("a", 4089) + "b", Literal: true},
	} {
		m, err := compile(args)
		if err != nil {
			t.Fatal(err)
		}
		line := bytes.Repeat([]byte("a"), 4<<20)
		begun := time.Now()
		if m.match(t.Context(), line) {
			t.Errorf("%.20s… is found", args.Pattern)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%.20s… took %s", args.Pattern, took)
		}
		if !m.match(t.Context(), append(line, args.Pattern...)) {
			t.Errorf("%.20s… is not found", args.Pattern)
		}
	}
}
