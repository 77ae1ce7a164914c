package grep

import (
	"regexp"
	"strings"

	"github.com/loopbus/loopbus/tools"
)

// compile makes the expression that lines are held against. Its syntax is Go's, which is that of ripgrep but for rarely
// used parts; as there, \d, \w and \s know all of Unicode.
func compile(args arguments) (*regexp.Regexp, error) {
	text := args.Pattern
	if args.Literal {
		text = regexp.QuoteMeta(text)
	} else {
		text = unicodeClasses(text)
	}
	if strings.Contains(text, "\n") {
		return nil, tools.Failure("A pattern with a line break matches nothing: lines are searched one by one.")
	}
	if args.IgnoreCase {
		text = "(?i:" + text + ")"
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil, tools.Failf("Bad pattern: %v", err)
	}
	return pattern, nil
}

// What the classes stand for, as members of a class in brackets.
const (
	digits = `\p{Nd}`
	spaces = `\s\v\x{85}\p{Z}`
	words  = `\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}`
)

var classes = map[string]string{"d": digits, "s": spaces, "w": words}

// unicodeClasses replaces the classes that Go takes for ASCII only. In brackets the negated ones are left: a class cannot
// hold the opposite of several others.
func unicodeClasses(pattern string) string {
	var b strings.Builder
	bracket := 0 // where the open bracket expression begins, plus one
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(escape(pattern[i:i+1], bracket > 0))
			continue
		case bracket > 0 && c == '[' && strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i:], ":]"); end > 0 {
				b.WriteString(pattern[i : i+end+2])
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
		b.WriteByte(c)
	}
	return b.String()
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
