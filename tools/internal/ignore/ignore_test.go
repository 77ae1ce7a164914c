package ignore_test

import (
	"testing"

	"github.com/loopbus/loopbus/tools/internal/ignore"
)

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, file         string
		ignored, kept, not []string // a slash at the end makes a directory
	}{
		{"names at any depth", "*.log\nbuild\n", []string{"a.log", "d/e/a.log", "build", "d/build/"}, nil,
			[]string{"a.txt", "builds"}},
		{"directories only", "build/\n", []string{"build/", "d/build/"}, nil, []string{"build", "build/x"}},
		{"anchored by a slash in front", "/a\n", []string{"a", "a/"}, nil, []string{"d/a"}},
		{"anchored by a slash inside", "d/a\n", []string{"d/a"}, nil, []string{"x/d/a", "a"}},
		{"the last rule decides", "*.log\n!a.log\n*a*\n!b*\n", []string{"x.log", "xa.log"}, []string{"b.log", "bax"},
			[]string{"x"}},
		{"comments and blank lines", "# a\n\n   \n\\#b\n", []string{"#b"}, nil, []string{"a", "# a"}},
		{"an exclamation mark as it is", "\\!a\n", []string{"!a"}, nil, []string{"a"}},
		{"blanks at the end", "a  \nb\\ \n", []string{"a", "b "}, nil, []string{"a  ", "b"}},
		{"CRLF and byte order mark", "\uFEFFa\r\nb/\r\n", []string{"a", "b/"}, nil, []string{"b", "a\r"}},
		{"two stars", "**/a\nb/**\nc/**/d\n", []string{"a", "x/y/a", "b/x", "b/x/y", "c/d", "c/x/y/d"}, nil,
			[]string{"b", "x/b/y", "x/c/d"}},
		{"a star stops at a slash", "d/*\n", []string{"d/a", "d/b/"}, nil, []string{"d/a/b"}},
		{"classes", "[ab].o\n[!x]y\n", []string{"a.o", "zy"}, nil, []string{"c.o", "xy"}},
		{"braces are characters", "*.{a,b}\n", []string{"x.{a,b}"}, nil, []string{"x.a"}},
		{"escaped characters", "\\*x\n\\{y\n", []string{"*x", "{y"}, nil, []string{"ax", "y"}},
		{"a line that cannot be read", "[a\nb\n", []string{"b"}, nil, []string{"a", "[a"}},
		{"no final newline", "a\nb", []string{"a", "b"}, nil, nil},
		{"nothing but signs", "/\n!\n!/\n", nil, nil, []string{"a", "a/"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := ignore.Parse(c.file)
			for want, paths := range map[ignore.Verdict][]string{ignore.Ignored: c.ignored, ignore.Kept: c.kept,
				ignore.Silent: c.not} {
				for _, path := range paths {
					isDir := path[len(path)-1] == '/'
					if isDir {
						path = path[:len(path)-1]
					}
					if got := rules.Match(t.Context(), path, isDir); got != want {
						t.Errorf("%q says %d of %q, want %d", c.file, got, path, want)
					}
				}
			}
		})
	}
}

func TestParseGlob(t *testing.T) {
	rules, err := ignore.ParseGlob("*.{ts,js}")
	if err != nil || rules.Match(t.Context(), "d/a.ts", false) != ignore.Ignored ||
		rules.Match(t.Context(), "a.go", false) != ignore.Silent || rules.Negated() {
		t.Errorf("%v, %v", rules, err)
	}
	if rules, err := ignore.ParseGlob("!*.ts"); err != nil || rules.Match(t.Context(), "a.ts", false) != ignore.Kept ||
		!rules.Negated() {
		t.Errorf("%v, %v", rules, err)
	}
	if rules, err := ignore.ParseGlob(""); rules != nil || err != nil {
		t.Errorf("%v, %v", rules, err)
	}
	if _, err := ignore.ParseGlob("a["); err == nil {
		t.Error("a bad glob is taken")
	}
}
