package grep

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loopbus/loopbus/tools"
)

// compile compiles a pattern for lines. The syntax is Go's, which differs from that of ripgrep only in rarely used
// parts. As in ripgrep, \d, \w and \s match all of Unicode, and a pattern that requires a line break is an error.
func compile(args arguments) (*matcher, error) {
	if n := len(args.Pattern); n > maxPattern {
		return nil, tools.Failf("Pattern too long: it has %d bytes, the limit is %d. Search for a shorter part of it.", n,
			maxPattern)
	}
	text := regexp.QuoteMeta(args.Pattern)
	apart := text
	if !args.Literal {
		text, apart = rewrite(args.Pattern)
	}
	if n := len(text); n > maxRewritten {
		return nil, tools.Failf(`Pattern too large: it has too many of \d, \s and \w, which stand for Unicode classes of %d `+
			"bytes in sum, the limit is %d. Use fewer of them.", n, maxRewritten)
	}
	if args.IgnoreCase {
		text = "(?i:" + text + ")"
	}
	tree, err := syntax.Parse(apart, syntax.Perl)
	if err != nil { // apart is nested deeper than text, perhaps too deep
		tree, err = syntax.Parse(text, syntax.Perl)
	}
	if err != nil {
		return nil, tools.Failf("Bad pattern: %v", err)
	}
	m := &matcher{instructions: max(instructions(tree), 1)} // a{0} has none
	if m.instructions > maxInstructions {
		return nil, tools.Failf("Pattern too large: with its repetitions written out it has %d steps, the limit is %d. "+
			"Use smaller repetition counts, + or *, or fewer alternatives.", m.instructions, maxInstructions)
	}
	if asksForBreak(tree) {
		return nil, tools.Failure("A pattern with a line break matches nothing: lines are searched one by one. " +
			"Search for what is in one line.")
	}
	if m.re, err = regexp.Compile(text); err != nil {
		return nil, tools.Failf("Bad pattern: %v", err)
	}
	if !args.IgnoreCase {
		m.literal = literal(tree)
	}
	return m, nil
}

// literal returns the text that is all that an expression matches, nil if it matches anything else. U+FFFD also matches
// bytes that are not UTF-8.
func literal(tree *syntax.Regexp) []byte {
	if tree.Op != syntax.OpLiteral || tree.Flags&syntax.FoldCase != 0 || slices.Contains(tree.Rune, utf8.RuneError) {
		return nil
	}
	return []byte(string(tree.Rune))
}

// asksForBreak reports whether a part of the expression can match only a line break, however it is written. A class
// that contains other characters, too, such as \s or [^a], does not require one.
func asksForBreak(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	case syntax.OpCharClass: // pairs of first and last character
		return len(re.Rune) > 0 && !slices.ContainsFunc(re.Rune, func(r rune) bool { return r != '\n' })
	default:
		return slices.ContainsFunc(re.Sub, asksForBreak)
	}
}

// The Unicode equivalents of the classes, as members of a class in brackets.
const (
	digits = `\p{Nd}`
	spaces = `\s\v\x{85}\p{Z}`
	words  = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}`
)

var classes = map[string]string{"d": digits, "s": spaces, "w": words}

// rewrite replaces the classes that are ASCII only in Go. It leaves negated classes in brackets, because a class cannot
// contain the complement of several others. The second result matches the same, but its alternatives stay separate when
// it is parsed: the parser turns a|\n into one class, which no longer shows that an alternative requires a line break.
func rewrite(pattern string) (text, apart string) {
	var b, alternatives strings.Builder
	write := func(s string) { b.WriteString(s); alternatives.WriteString(s) }
	bracket := 0 // start of the open bracket expression, plus one
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case bracket == 0 && strings.HasPrefix(pattern[i:], `\Q`):
			quoted, _, _ := strings.Cut(pattern[i:], `\E`)
			write(quoted)
			i += len(quoted) - 1
			continue
		case c == '\\' && i+1 < len(pattern):
			i++
			write(escape(pattern[i:i+1], bracket > 0))
			continue
		case bracket > 0 && c == '[' && strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i:], ":]"); end > 0 {
				write(pattern[i : i+end+2])
				i += end + 1
				continue
			}
		case bracket == 0 && c == '[':
			bracket = i + 1
			if strings.HasPrefix(pattern[i+1:], "^") {
				bracket++
			}
		case c == ']' && bracket > 0 && i > bracket:
			bracket = 0
		}
		write(pattern[i : i+1])
		if c == '|' && bracket == 0 {
			alternatives.WriteString("(?:)") // this prefix keeps the parser from factoring alternatives
		}
	}
	return b.String(), alternatives.String()
}

// escape returns the equivalent of a backslash and the letter after it.
func escape(letter string, inBracket bool) string {
	members, ok := classes[strings.ToLower(letter)]
	negated := letter != strings.ToLower(letter)
	switch {
	case !ok || negated && inBracket:
		return `\` + letter
	case inBracket:
		return members
	case negated:
		return "[^" + members + "]"
	}
	return "[" + members + "]"
}
