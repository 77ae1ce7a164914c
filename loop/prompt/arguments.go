package prompt

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// words splits arguments at spaces. Quotes, single or double, keep spaces; one that is not closed reaches to the end.
func words(text string) (list []string) {
	var word strings.Builder
	var quote rune
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote = r
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if word.Len() > 0 {
				list = append(list, word.String())
				word.Reset()
			}
		default:
			word.WriteRune(r)
		}
	}
	if word.Len() > 0 {
		list = append(list, word.String())
	}
	return list
}

// place is where an argument goes: $1, $@, $ARGUMENTS, ${@:2} (from the second on), ${@:2:1} (one from the second on).
var place = regexp.MustCompile(`\$(?:(\d+)|(@|ARGUMENTS)|\{@:(\d+)(?::(\d+))?\})`)

// substitute puts arguments into the places of a template, once: what arguments bring is not looked at again.
func substitute(template string, args []string) string {
	return place.ReplaceAllStringFunc(template, func(found string) string {
		m := place.FindStringSubmatch(found)
		switch {
		case m[1] != "":
			if n := number(m[1]); 1 <= n && n <= len(args) {
				return args[n-1]
			}
			return ""
		case m[2] != "":
			return strings.Join(args, " ")
		}
		rest := args[min(max(number(m[3]), 1)-1, len(args)):]
		if m[4] != "" {
			rest = rest[:min(number(m[4]), len(rest))]
		}
		return strings.Join(rest, " ")
	})
}

// number reads digits; too many of them are more than there are arguments.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return math.MaxInt32
	}
	return n
}
