package grep

import "testing"

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
		{arguments{Pattern: ``}, []string{"", "a"}, nil},
	} {
		re, err := compile(c.args)
		if err != nil {
			if len(c.yes) > 0 {
				t.Errorf("%+v: %v", c.args, err)
			}
			continue
		}
		for _, line := range c.yes {
			if !re.MatchString(line) {
				t.Errorf("%+v does not match %q", c.args, line)
			}
		}
		for _, line := range c.no {
			if re.MatchString(line) {
				t.Errorf("%+v matches %q", c.args, line)
			}
		}
	}
}

func TestBadPatterns(t *testing.T) {
	for _, args := range []arguments{
		{Pattern: "f(x"}, {Pattern: "["}, {Pattern: `\`}, {Pattern: "a{2000}"}, {Pattern: `(?=x)`}, {Pattern: "a\nb"}, {Pattern: "a\nb", Literal: true},
	} {
		if _, err := compile(args); err == nil {
			t.Errorf("%+v compiles", args)
		}
	}
}
