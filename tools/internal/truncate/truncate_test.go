package truncate_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/tools/internal/truncate"
)

func TestSize(t *testing.T) {
	for _, c := range []struct {
		n    int64
		want string
	}{
		{0, "0B"}, {1023, "1023B"}, {1024, "1.0KB"}, {1280, "1.3KB"}, {51200, "50.0KB"}, {60000, "58.6KB"},
		{1<<20 - 1, "1024.0KB"}, {1 << 20, "1.0MB"}, {1<<20 + 1<<18, "1.3MB"},
	} {
		if got := truncate.Size(c.n); got != c.want {
			t.Errorf("Size(%d) = %s, want %s", c.n, got, c.want)
		}
	}
}

// The collectors agree with the rules applied to the whole text, however it arrives.
func TestCollectorsMatchTheRules(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 20000 {
		text := randomText(rng)
		maxLines, maxBytes := int64(1+rng.IntN(6)), int64(4+rng.IntN(20))
		head, tail := truncate.NewHead(maxLines, maxBytes), truncate.NewTail(maxLines, maxBytes)
		for rest := text; rest != ""; {
			n := min(len(rest), 1+rng.IntN(9))
			head.Write([]byte(rest[:n]))
			tail.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if d := cmp.Diff(headRule(text, maxLines, maxBytes), head.Result()); d != "" {
			t.Fatalf("head of %q, %d lines, %d bytes (-want +got):\n%s", text, maxLines, maxBytes, d)
		}
		if d := cmp.Diff(tailRule(text, maxLines, maxBytes), tail.Result()); d != "" {
			t.Fatalf("tail of %q, %d lines, %d bytes (-want +got):\n%s", text, maxLines, maxBytes, d)
		}
	}
}

func randomText(rng *rand.Rand) string {
	var b strings.Builder
	for range rng.IntN(40) {
		b.WriteString([]string{"\n", "a", "bc", "é", "😀"}[rng.IntN(5)])
	}
	return b.String()
}

func totals(text string, maxLines, maxBytes int64) (truncate.Result, []string, bool) {
	lines := strings.Split(text, "\n")
	r := truncate.Result{TotalLines: int64(len(lines)), TotalBytes: int64(len(text)), MaxLines: maxLines,
		MaxBytes: maxBytes}
	visible := int64(len(strings.Split(strings.TrimSuffix(text, "\n"), "\n")))
	if visible <= maxLines && r.TotalBytes <= maxBytes {
		r.Content, r.OutputLines, r.OutputBytes = text, r.TotalLines, r.TotalBytes
		return r, lines, true
	}
	r.Truncated = true
	return r, lines, false
}

func headRule(text string, maxLines, maxBytes int64) truncate.Result {
	r, lines, whole := totals(text, maxLines, maxBytes)
	if whole {
		return r
	}
	r.TruncatedBy = truncate.ByLines
	if int64(len(lines[0])) > maxBytes {
		r.TruncatedBy, r.FirstLineExceedsLimit, r.LineBytes = truncate.ByBytes, true, int64(len(lines[0]))
		return r
	}
	n := 0
	for n < len(lines) && int64(n) < maxLines {
		if int64(len(strings.Join(lines[:n+1], "\n"))) > maxBytes {
			r.TruncatedBy = truncate.ByBytes
			break
		}
		n++
	}
	r.Content = strings.Join(lines[:n], "\n")
	r.OutputLines, r.OutputBytes = int64(n), int64(len(r.Content))
	return r
}

func tailRule(text string, maxLines, maxBytes int64) truncate.Result {
	r, lines, whole := totals(text, maxLines, maxBytes)
	if whole {
		return r
	}
	r.TruncatedBy = truncate.ByLines
	from := len(lines)
	for from > 0 && int64(len(lines)-from) < maxLines {
		if int64(len(strings.Join(lines[from-1:], "\n"))) > maxBytes {
			r.TruncatedBy = truncate.ByBytes
			break
		}
		from--
	}
	r.Content = strings.Join(lines[from:], "\n")
	r.OutputLines = int64(len(lines) - from)
	if r.Content == "" && r.TruncatedBy == truncate.ByBytes {
		r.LineBytes = int64(len(lines[from-1]))
		r.OutputLines++
		r.LastLinePartial = true
		r.Content = text[int64(len(text))-maxBytes:]
		for !utf8.RuneStart(r.Content[0]) {
			r.Content = r.Content[1:]
		}
	}
	r.OutputBytes = int64(len(r.Content))
	return r
}
