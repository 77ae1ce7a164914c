// Package ignore parses .gitignore files and matches paths against them.
package ignore

import (
	"context"
	"strings"

	"github.com/loopbus/loopbus/tools/internal/glob"
)

// A Verdict is the result of matching a path against rules.
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

// Parse parses the lines of a file. Like git, it skips invalid lines.
func Parse(text string) (rules Rules) {
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if r, err := parseLine(line, literalBraces); r != nil && err == nil {
			rules = append(rules, *r)
		}
	}
	return rules
}

// ParseGlob parses a pattern that has the form of a line but may contain alternatives in braces. It returns no rules
// for a pattern that matches nothing.
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

// Match returns the verdict of the last rule that matches the path, which is relative to the location of the rules and
// uses slashes. It does not consider parent directories: a walk does not enter ignored directories. When the context
// ends it returns soon, and the verdict means nothing: a file may have many rules, each of which takes long.
func (r Rules) Match(ctx context.Context, path string, isDir bool) Verdict {
	name := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(r) - 1; i >= 0 && ctx.Err() == nil; i-- {
		rule := &r[i]
		if rule.dirOnly && !isDir {
			continue
		}
		subject := name
		if rule.anchored {
			subject = path
		}
		if rule.pattern.Match(ctx, subject) {
			if rule.keep {
				return Kept
			}
			return Ignored
		}
	}
	return Silent
}

// literalBraces escapes braces, which are ordinary characters in git's patterns.
var literalBraces = strings.NewReplacer("{", `\{`, "}", `\}`, `\\`, `\\`, `\{`, `\{`, `\}`, `\}`)

// parseLine returns nil for a line without a rule.
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

// trimBlanks removes blanks at the end that are not escaped.
func trimBlanks(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}
