package glob_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/tools/internal/glob"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern string
		fold    bool
		yes, no []string
	}{
		{"*.ts", false, []string{"a.ts", ".ts", "é.ts"}, []string{"a.tsx", "d/a.ts", "a.TS"}},
		{"a?c", false, []string{"abc", "aéc"}, []string{"ac", "a/c", "abbc"}},
		{"[a-c]x", false, []string{"bx"}, []string{"dx", "x"}},
		{"[!a-c]x", false, []string{"dx"}, []string{"bx"}},
		{"[^a]x", false, []string{"bx"}, []string{"ax"}},
		{"*.{ts,js}", false, []string{"a.ts", "a.js"}, []string{"a.tsx", "a.{ts,js}"}},
		{"{a,b/{c,d}}", false, []string{"a", "b/c", "b/d"}, []string{"b", "c"}},
		{"{a,b}{,/**}/x,y", false, []string{"a/x,y", "b/z/x,y"}, []string{"c/x,y", "a/x"}},
		{`{[{,}],\{,\}}z`, false, []string{"{z", "}z", ",z"}, []string{"z", "[z"}},
		{"{a}{}", false, []string{"a"}, []string{"{a}{}"}},
		{"**", false, []string{"a", "a/b"}, nil},
		{"**/a", false, []string{"a", "x/a", "/x/y/a"}, []string{"xa", "a/b"}},
		{"a/**/b", false, []string{"a/b", "a/x/b", "a/x/y/b"}, []string{"ab", "a/xb", "x/a/b"}},
		{"a/**", false, []string{"a/b", "a/b/c"}, []string{"a", "ab"}},
		{"a**b", false, []string{"ab", "axb"}, []string{"a/b"}},
		{"a/**/b/**/c", false, []string{"a/b/c", "a/x/b/b/y/c"}, []string{"a/c/b", "a/b/c/d"}},
		{"a/**/", false, []string{"a"}, []string{"a/b"}},
		{`a\/[b/]`, false, []string{"a/b"}, []string{"a//", "ab"}},
		{"a[!b]c", false, []string{"axc"}, []string{"a/c", "abc"}},
		{`a\*b`, false, []string{"a*b"}, []string{"axb"}},
		{"readme*", true, []string{"README.md", "readme"}, []string{"aREADME"}},
		{"é", true, []string{"É", "é"}, []string{"e"}},
		{"README", false, []string{"README"}, []string{"readme"}},
	} {
		p, err := glob.Compile(c.pattern, c.fold)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, name := range c.yes {
			if !p.Match(t.Context(), name) {
				t.Errorf("%s does not match %s", c.pattern, name)
			}
		}
		for _, name := range c.no {
			if p.Match(t.Context(), name) {
				t.Errorf("%s matches %s", c.pattern, name)
			}
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for _, pattern := range []string{"a[", "[]", "{a", "a[b-", `a\`, "{a,{b}"} {
		if _, err := glob.Compile(pattern, false); err == nil {
			t.Errorf("%s compiles", pattern)
		}
	}
}

// Models write the patterns. No pattern may keep a worker busy for long.
func TestHostilePatterns(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("a", 60)
	for what, pattern := range map[string]string{
		"many alternatives":     strings.Repeat("{a,a}", 40) + "b",
		"alternatives squared":  strings.Repeat("{a,{b,c}}", 30),
		"a wide one":            "{" + strings.Repeat("a,", 2000) + "a}",
		"long ones":             "{" + strings.Repeat("a,", 1000) + "a}" + strings.Repeat("b", 10_000),
		"stars between":         strings.Repeat("*{a,a}", 12) + "b",
		"stars in alternatives": strings.Repeat("{*a,a*}", 20) + "b",
		"a long pattern":        strings.Repeat("*a", 10_000),
	} {
		if _, err := glob.Compile(pattern, false); err == nil {
			t.Errorf("%s: compiles", what)
		}
	}
	for what, pattern := range map[string]string{
		"nested":        strings.Repeat("{a,", 400) + "a" + strings.Repeat("}", 400) + "b",
		"stars":         strings.Repeat("*a", 200) + "b",
		"a few between": strings.Repeat("*{a,a}", 9) + "b",
		"directories":   strings.Repeat("**/*a/", 200) + "b",
	} {
		p, err := glob.Compile(pattern, false)
		if begun := time.Now(); err != nil || p.Match(t.Context(), name) || time.Since(begun) > 5*time.Second {
			t.Errorf("%s: %v, matched in %s", what, err, time.Since(begun))
		}
	}
}

// A deep path and a costly pattern, each within its limits, are matched no longer than their caller waits.
func TestMatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, err := glob.Compile("**/*"+strings.Repeat("[!x]", 250)+"q", false)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Repeat(strings.Repeat("a", 255)+"/", 10_000) // seconds
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if begun := time.Now(); p.Match(ctx, path) || time.Since(begun) > time.Second {
		t.Errorf("it took %s", time.Since(begun))
	}
}

// A line of commas took the square of its length.
func TestCommasAreCharacters(t *testing.T) {
	commas := strings.Repeat(",", 16<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := glob.Compile(commas, false)
	runtime.ReadMemStats(&after)
	if err != nil || !p.Match(t.Context(), commas) {
		t.Error(err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
		t.Errorf("%d bytes for a pattern of %d", allocated, len(commas))
	}
}

func TestHasUpper(t *testing.T) {
	for pattern, want := range map[string]bool{"": false, "a*1-é": false, "aB": true, "É": true, "[A-Z]": true} {
		if got := glob.HasUpper(pattern); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
}
