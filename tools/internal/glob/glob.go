// Package glob matches names and paths against file patterns: *, ?, [a-z], {a,b}, and ** for any number of
// directories. A single star and a question mark do not match a slash.
package glob

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"
)

// A Pattern is a compiled pattern. It is safe for concurrent use.
type Pattern struct {
	texts []components // without braces; one of them has to match
	fold  bool
}

// Compile compiles a pattern. With fold, case is ignored. A pattern that would be slow to match, because of its
// length or its many alternatives, is an error.
func Compile(pattern string, fold bool) (Pattern, error) {
	if len(pattern) > maxPattern {
		return Pattern{}, fmt.Errorf("bad glob: it has more than %d bytes", maxPattern)
	}
	text := pattern
	// dir/** matches the content of a directory, not the directory itself.
	if dir, ok := strings.CutSuffix(text, "/**"); ok {
		text = dir + "/**/*"
	}
	if fold {
		text = strings.ToLower(text)
	}
	if !doublestar.ValidatePattern(text) {
		return Pattern{}, fmt.Errorf("bad glob %q: a bracket or brace is not closed, or a range is upside down", pattern)
	}
	texts, err := alternatives(text)
	p := Pattern{make([]components, len(texts)), fold}
	for i, text := range texts {
		p.texts[i] = split(text)
	}
	return p, err
}

// Match reports whether the pattern matches all of a name, or of a path with slashes. It returns false soon after the
// context ends: a long pattern and a long path take their product.
func (p Pattern) Match(ctx context.Context, name string) bool {
	if p.fold {
		name = strings.ToLower(name)
	}
	return slices.ContainsFunc(p.texts, func(c components) bool { return ctx.Err() == nil && c.match(ctx, name) })
}

// HasUpper reports whether a pattern contains an upper-case letter: by the convention of smart case, only such a
// pattern is case-sensitive.
func HasUpper(pattern string) bool { return strings.ContainsFunc(pattern, unicode.IsUpper) }
