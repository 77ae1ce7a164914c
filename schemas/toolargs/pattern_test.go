package toolargs_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas/toolargs"
)

// What JavaScript answers with its flag u, in patterns for both engines: a lookahead that always holds makes one for
// the one that goes back.
func TestPatternsAreThoseOfJavaScript(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{`^\d$`, "5", true},
		{`^\d$`, "\u0665", false}, // a digit, but not of ASCII
		{`^\w$`, "_", true},
		{`^\w$`, "é", false},
		{`^\W$`, "é", true},
		{`^\s$`, "\ufeff", true},
		{`^\s$`, "\u2028", true},
		{`^\s$`, "\u180e", false},
		{`^[\s]$`, "\u00a0", true},
		{`^[^\S]$`, "\u3000", true},
		{`^\S$`, "\u0085", true},
		{`^.$`, "\u2028", false},
		{`^.$`, "\u0085", true},
		{`^.$`, "😀", true}, // one code point
		{`^a$`, "a\n", false},
		{`a$`, "a\nb", false},
		{`^b`, "a\nb", false},
		{`[]`, "", false},
		{`[]|a`, "a", true},
		{`^[^]$`, "\n", true},
		{`^[^]$`, "😀", true},
		{`^\u{1f600}$`, "😀", true},
		{`^\ud83d\ude00$`, "😀", true},
		{`^[\u{1f600}-\u{1f64f}]$`, "😃", true},
		{`^\x41\u0042\cJ$`, "AB\n", true},
		{`^\0$`, "\x00", true},
		{`^[\b]$`, "\b", true},
		{`\bé`, "é", false}, // é is no word
		{`é\Bé`, "éé", true},
		{`a\B`, "a", false},
		{`^[a\-z]$`, "b", false},
		{`^[[:alpha:]$`, "[", true},
		{`^[a-z-[aeiou]$`, "b", true}, // no subtraction
		{`^\p{L}$`, "é", true},
		{`^\p{Letter}$`, "é", true},
		{`^\p{Script=Greek}$`, "α", true},
		{`^\P{L}$`, "é", false},
		{`^x{2000}$`, "", false},
		{`^(?<a>x)(y)$`, "xy", true},
		{`^(?<é$_1>x)$`, "x", true}, // a name that Go does not know
	} {
		for _, prefix := range []string{"", "(?=[^]*)"} {
			matches(t, prefix+tt.pattern, tt.text, tt.want)
		}
	}
}

// What only the engine that goes back has.
func TestReferencesAreThoseOfJavaScript(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{`^(?<a>x)(y)\1$`, "xyx", true}, // numbered in order, named or not
		{`^(?<a>x)(y)\k<a>$`, "xyx", true},
		{`^(?<é$_1>x)\k<é$_1>$`, "xx", true},
		{`^\k<a>(?<a>x)$`, "x", true}, // matches nothing before the group has
		{`^(a)\k<a>0(?<a>b)$`, "a0b", true},
		{`^(a)(?:\1)0$`, "aa0", true},
		{`^(?:(a)|(b))\1\2$`, "aa", true},
		{`^(?:(a)|b)*\1$`, "ab", true}, // a repetition forgets
		{`^(?:(a)|b)*\1$`, "aba", false},
		{`^(?:(a)|b){2}\1c$`, "abc", true},
		{`^(?:(a)|b)+?\1$`, "ab", true},
		{`^((a)|b)*\2$`, "ab", true},
		{`^(?:(?:(a)|b)*c)*\1$`, "acbc", true},
		{`^(?:(a)|b)*\1$`, "baa", true},
		{`(?<=(?:(a)|b)*)c\1$`, "abca", true}, // backwards, a comes last
		{`(?<=(?:(a)|b)*)c\1$`, "bac", true},
		{`(?<=(?:(a)|b)*)c\1d$`, "xbacd", true},
		{`(?<=\$)\d+$`, "$5", true},
		{`(?<!\$)\b\d+$`, "$5", false},
	} {
		matches(t, tt.pattern, tt.text, tt.want)
	}
	for _, pattern := range []string{`(?<a>x)(?<a>y)(?=z)`, `(?<1>x)(?=z)`, `(?=a)\A`, `(?>a)`, `(?=a)(?i)b`, `(?=a)(?#b)`,
		`(?(1)a)`, `(?<a-b>x)(?=z)`, `(a)\10`, `(a)[\1]`} {
		parameters, _ := json.Marshal(map[string]string{"pattern": pattern})
		if _, err := toolargs.Compile(parameters); err == nil {
			t.Errorf("%s compiles", pattern)
		}
	}
}

func matches(t *testing.T, pattern, text string, want bool) {
	t.Helper()
	parameters, _ := json.Marshal(map[string]string{"pattern": pattern})
	args, _ := json.Marshal(text)
	if _, err := validate(t, compile(t, string(parameters)), string(args)); (err == nil) != want {
		t.Errorf("%s on %q: %t, want %t", pattern, text, !want, want)
	}
}

// What a match remembers to go back is bounded, whatever a worker announces and a model sends. The test is not
// parallel, because it measures what is allocated.
func TestMatchesTakeBoundedMemory(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		length  int
		fits    bool
	}{
		{`(?=a)(?:(a)|(b)|(c))*(?:\1)*z`, 3_900_000, false},
		{`(?=a)(a)+$`, 3_900_000, false},
		{`(?:(?=(?:(a)|(b)|(c))*)a)*z`, 3_900_000, false},
		{`(?=a)(((a)+)+)+$`, 4_000, true}, // with more than short texts have by themselves
		{`(?=a)(((a)+)+)+$`, 300_000, true},
	} {
		parameters, _ := json.Marshal(map[string]string{"pattern": tt.pattern})
		schema, err := toolargs.CompileWithin(parameters, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = validate(t, schema, `"`+strings.Repeat("a", tt.length)+`"`)
		runtime.ReadMemStats(&after)
		tooMuch := err != nil && strings.Contains(err.Error(), "  - root: checking the arguments takes more than 32 MiB")
		if tt.fits != (err == nil) || tt.fits == tooMuch {
			t.Errorf("%d characters for %s: %.200v", tt.length, tt.pattern, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 250<<20 {
			t.Errorf("%d characters for %s: %d MiB were allocated", tt.length, tt.pattern, took>>20)
		}
	}
}
