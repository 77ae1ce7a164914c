// Package ignore knows the lines of .gitignore files and what they say of a path.
package ignore

import (
	"strings"

	"github.com/loopbus/loopbus/tools/internal/glob"
)

// A Verdict is what rules say of a path.
type Verdict int

// The verdicts. Kept is that of a line that begins with an exclamation mark.
const (
	Silent Verdict = iota
	Ignored
	Kept
)

// Rules are the lines of a file, in order.
type Rules []rule

type rule struct {
	pattern  glob.Pattern
	anchored bool // it is matched against the whole path, not the name
	dirOnly  bool
	keep     bool
}

// Parse reads the lines of a file. Lines that cannot be read are left out, as git does.
func Parse(text string) (rules Rules) {
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if r, err := parseLine(line, literalBraces); r != nil && err == nil {
			rules = append(rules, *r)
		}
	}
	return rules
}

// ParseGlob makes a rule of a pattern that is written like a line, but may have alternatives in braces; empty rules of
// one that says nothing.
func ParseGlob(pattern string) (Rules, error) {
	r, err := parseLine(pattern, nil)
	if r == nil || err != nil {
		return nil, err
	}
	return Rules{*r}, nil
}

// Negated reports whether all rules begin with an exclamation mark.
func (r Rules) Negated() bool {
	for i := range r {
		if !r[i].keep {
			return false
		}
	}
	return true
}

// Match returns what the last rule says that matches the path, which is relative to where the rules stand and has
// slashes. It says nothing of directories above: a walk does not enter those that are ignored.
func (r Rules) Match(path string, isDir bool) Verdict {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(r) - 1; i >= 0; i-- {
		rule := &r[i]
		if rule.dirOnly && !isDir {
			continue
		}
		subject := name
		if rule.anchored {
			subject = path
		}
		if rule.pattern.Match(subject) {
			if rule.keep {
				return Kept
			}
			return Ignored
		}
	}
	return Silent
}

// literalBraces stand for themselves in git's patterns.
var literalBraces = strings.NewReplacer("{", `\{`, "}", `\}`, `\\`, `\\`, `\{`, `\{`, `\}`, `\}`)

// parseLine returns nil for a line that says nothing.
func parseLine(line string, braces *strings.Replacer) (*rule, error) {
	line = trimBlanks(line)
	if line == "" || line[0] == '#' {
		return nil, nil
	}
	var r rule
	line, r.keep = strings.CutPrefix(line, "!")
	if !r.keep && (strings.HasPrefix(line, `\!`) || strings.HasPrefix(line, `\#`)) {
		line = line[1:]
	}
	line, r.dirOnly = strings.CutSuffix(line, "/")
	line, r.anchored = strings.CutPrefix(line, "/")
	r.anchored = r.anchored || strings.Contains(line, "/")
	if line == "" {
		return nil, nil
	}
	if braces != nil {
		line = braces.Replace(line)
	}
	var err error
	r.pattern, err = glob.Compile(line, false)
	return &r, err
}

// trimBlanks takes off blanks at the end that are not escaped.
func trimBlanks(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}
