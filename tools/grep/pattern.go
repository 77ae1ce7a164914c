package grep

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/tools"
)

// compile makes the expression that lines are matched with. Its syntax is Go's, which is that of ripgrep but for rarely
// used parts; as there, \d, \w and \s know all of Unicode, and a pattern that asks for a line break is refused.
func compile(args arguments) (*regexp.Regexp, error) {
	text := regexp.QuoteMeta(args.Pattern)
	apart := text
	if !args.Literal {
		text, apart = rewrite(args.Pattern)
	}
	if args.IgnoreCase {
		text = "(?i:" + text + ")"
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil, tools.Failf("Bad pattern: %v", err)
	}
	tree, err := syntax.Parse(apart, syntax.Perl)
	if err != nil { // larger than text, it may be too large
		tree, err = syntax.Parse(text, syntax.Perl)
	}
	if err == nil && asksForBreak(tree) {
		return nil, tools.Failure("A pattern with a line break matches nothing: lines are searched one by one. " +
			"Search for what is in one line.")
	}
	return pattern, nil
}

// asksForBreak reports whether a part of the expression can match nothing but a line break, however it is spelled. A
// class that holds other characters, too, such as \s or [^a], does not ask for one.
func asksForBreak(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	case syntax.OpCharClass: // pairs of first and last
		return len(re.Rune) > 0 && !slices.ContainsFunc(re.Rune, func(r rune) bool { return r != '\n' })
	default:
		return slices.ContainsFunc(re.Sub, asksForBreak)
	}
}

// What the classes stand for, as members of a class in brackets.
const (
	digits = `\p{Nd}`
	spaces = `\s\v\x{85}\p{Z}`
	words  = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}`
)

var classes = map[string]string{"d": digits, "s": spaces, "w": words}

// rewrite replaces the classes that Go takes for ASCII only. In brackets the negated ones are left: a class cannot hold
// the opposite of several others. The second form matches the same, and its alternatives stay apart when it is parsed:
// the parser makes one class of a|\n, and the tree no longer says that the second asks for a line break.
func rewrite(pattern string) (text, apart string) {
	var b, alternatives strings.Builder
	write := func(s string) { b.WriteString(s); alternatives.WriteString(s) }
	bracket := 0 // where the open bracket expression begins, plus one
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
			alternatives.WriteString("(?:)") // as long as it begins with this, nothing is taken out of an alternative
		}
	}
	return b.String(), alternatives.String()
}

// escape returns what a backslash and the letter after it stand for.
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
