package chat

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/term"
)

// shown is a screen of a width, and what it shows.
func shown(width int) (*screen, *bytes.Buffer) {
	var out bytes.Buffer
	return &screen{width: width, Terminal: term.NewTerminal(ends{strings.NewReader(""), &out}, "> ")}, &out
}

// ends are the two of a terminal.
type ends struct {
	in  *strings.Reader
	out *bytes.Buffer
}

func (e ends) Read(p []byte) (int, error)  { return e.in.Read(p) }
func (e ends) Write(p []byte) (int, error) { return e.out.Write(p) }

// A model may say a megabyte without a line break: to show it takes as much as it is long.
func TestALineWithoutEnd(t *testing.T) {
	s, _ := shown(80)
	const size = 256 << 10
	text := []byte(strings.Repeat("é", size/2))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if n, err := s.Write(text); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 100*size {
		t.Errorf("%d bytes were allocated for %d", got, size)
	}
}

// What has no end yet is broken at the last space that leaves it short enough, and in a word where there is none.
func TestLinesAreWrapped(t *testing.T) {
	t.Parallel()
	s, out := shown(12)
	for _, text := range []string{"éé éé éé éé éé", " 0123456789abcdef\nend", "\n0123456789abcdef", "\n"} {
		if _, err := s.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.ReplaceAll(out.String(), "\r\n", "\n"), "\n")
	if got, want := strings.Join(lines, "|"), "éé éé éé |éé éé 0123456789abcdef|end|0123456789a|bcdef|"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
