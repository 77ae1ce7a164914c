package grep

import (
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		args    arguments
		yes, no []string
	}{
		{arguments{Pattern: `^\d+$`}, []string{"12", "٣"}, []string{"", "a", "½"}},
		{arguments{Pattern: `^\D$`}, []string{"a", "½"}, []string{"1", "٣"}},
		{arguments{Pattern: `^\w+$`}, []string{"aé_1", "名前", "e\u0301"}, []string{"a-b", "a b", ""}},
		{arguments{Pattern: `^\W$`}, []string{"-", "€"}, []string{"é", "_"}},
		{arguments{Pattern: `^a\sb$`}, []string{"a b", "a\tb", "a\u00a0b", "a\u3000b"}, []string{"ab", "a_b"}},
		{arguments{Pattern: `^\S+$`}, []string{"ab"}, []string{"a\u00a0b"}},
		{arguments{Pattern: `^[\w.]+$`}, []string{"é.b"}, []string{"a-b"}},
		{arguments{Pattern: `^[^\d]$`}, []string{"a"}, []string{"1", "٣"}},
		{arguments{Pattern: `^[]\d]+$`}, []string{"]1"}, []string{"a"}},
		{arguments{Pattern: `^[^]\d]+$`}, []string{"a"}, []string{"]", "1"}},
		{arguments{Pattern: `^[[:alpha:]\d]+$`}, []string{"a1"}, []string{"-"}},
		{arguments{Pattern: `^[\[\]\\d]$`}, []string{"[", "]", `\`, "d"}, []string{"1"}},
		{arguments{Pattern: `\bfoo\b`}, []string{"a foo b"}, []string{"foobar"}},
		{arguments{Pattern: `\é`}, []string{}, nil},
		{arguments{Pattern: `ÄR`, IgnoreCase: true}, []string{"är"}, []string{"ar"}},
		{arguments{Pattern: `a|b`, IgnoreCase: true}, []string{"A", "B"}, []string{"c"}},
		{arguments{Pattern: `\d[`, Literal: true}, []string{`x\d[y`}, []string{"1["}},
		{arguments{Pattern: `a.B`, Literal: true, IgnoreCase: true}, []string{"A.b"}, []string{"axb"}},
		{arguments{Pattern: `^\Q\d[|\E\d$`}, []string{`\d[|1`}, []string{"1"}},
		{arguments{Pattern: ``}, []string{"", "a"}, nil},
	} {
		m, err := compile(c.args)
		if err != nil {
			if len(c.yes) > 0 {
				t.Errorf("%+v: %v", c.args, err)
			}
			continue
		}
		for _, line := range c.yes {
			if !m.re.MatchString(line) {
				t.Errorf("%+v does not match %q", c.args, line)
			}
		}
		for _, line := range c.no {
			if m.re.MatchString(line) {
				t.Errorf("%+v matches %q", c.args, line)
			}
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for _, args := range []arguments{
		{Pattern: "f(x"}, {Pattern: "["}, {Pattern: `\`}, {Pattern: "a{2000}"}, {Pattern: `(?=x)`}} {
		if _, err := compile(args); err == nil {
			t.Errorf("%+v compiles", args)
		}
	}
}

// A line break that is asked for is refused however it is spelled, since no line has one.
func TestPatternsThatAskForALineBreak(t *testing.T) {
	for _, pattern := range []string{
		"\n", "a\nb", `\n`, `a\nb`, `\x0A`, `\x0a`, `\x{a}`, `\x{00000A}`, `\012`, `\12`, `(?:\r\n)`, `\r\n`,
		`\Qa` + "\n" + `b\E`,
		`[\n]`, "[\n]", `[\x0A]`, `[\012]`, `[\n\n]`, `[\n-\n]`, `[\x{a}-\x0A]`, `[^\x00-\x09\x0B-\x{10FFFF}]`,
		`[^\x00-\t\v-\x{10FFFF}]`,
		`(\n)`, `(?P<n>\n)`, `(?i)\n`, `(?i:\n)`, `\n?`, `\n*`, `a\n+`, `\n{2}`, `(a|b\n)`, `a|\n`, `\n|a`, `a|b|\n|c`,
		`[ab]|\n`, `ab|a\n`, `a\n|ab`,
		`foo|bar\n|baz`, `(?:a|(?:b|\n))c`, `a(|\n)`, `\\\n`, `[|]|\n`, `[]|]|\n`, `[^]|]|\n`, `[[:alpha:]|]|\n`, `\||\n`,
		`\Q[\E|\n`, `\Q|\E|\n`, `^$\n`,
	} {
		for _, ignoreCase := range []bool{false, true} {
			_, err := compile(arguments{Pattern: pattern, IgnoreCase: ignoreCase})
			if err == nil || !strings.HasPrefix(err.Error(), "A pattern with a line break matches nothing") {
				t.Errorf("%q: %v", pattern, err)
			}
		}
	}
	if _, err := compile(arguments{Pattern: "a\nb", Literal: true}); err == nil {
		t.Error("a literal line break compiles")
	}
}

// A pattern that may match a line break among other things asks for the others.
func TestPatternsThatMayMatchALineBreak(t *testing.T) {
	for _, pattern := range []string{
		`[^a]`, `\s`, `a\s+b`, `\W`, `\D`, `[\n\r]`, `[a\n]`, `[\t-\r]`, `[[:space:]]`, `[[:cntrl:]]`, `\pC`, `.`, `(?s).`,
		`(?s:a.b)`, `(?m)^a$`, `a$`, `\z`,
		`\\n`, `[\\n]`, `\Q\n\E`, `n`, `a|[^b]`, `\v`, `\x0B`, `[^\x00-\x{10FFFF}]`, `[^\n]`, `[^\n]*|b`,
	} {
		if _, err := compile(arguments{Pattern: pattern}); err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	if _, err := compile(arguments{Pattern: `a\nb`, Literal: true}); err != nil {
		t.Errorf("a backslash and an n: %v", err)
	}
}
