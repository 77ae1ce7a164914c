package prompt

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// words splits arguments at spaces. Single or double quotes keep spaces; an unclosed quote reaches to the end.
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

// place matches where an argument goes: $1, $@, $ARGUMENTS, ${@:2} (from the second on), ${@:2:1} (one from the
// second).
var place = regexp.MustCompile(`\$(?:(\d+)|(@|ARGUMENTS)|\{@:(\d+)(?::(\d+))?\})`)

// substitute puts arguments into the places of a template, once: places within arguments are not substituted. ok is
// false if the result would exceed most bytes: a template with a few thousand places would turn a long prompt into
// gigabytes.
func substitute(template string, args []string, most int) (text string, ok bool) {
	var b strings.Builder
	all, end := strings.Join(args, " "), 0
	for _, m := range place.FindAllStringSubmatchIndex(template, -1) {
		part := argument(template, m, args, all)
		if b.Len()+m[0]-end+len(part) > most {
			return "", false
		}
		b.WriteString(template[end:m[0]])
		b.WriteString(part)
		end = m[1]
	}
	b.WriteString(template[end:])
	return b.String(), b.Len() <= most
}

// argument returns the text for a place, whose groups are at m. all are the arguments joined by spaces.
func argument(template string, m []int, args []string, all string) string {
	group := func(i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return template[m[2*i]:m[2*i+1]]
	}
	switch {
	case group(1) != "":
		if n := number(group(1)); 1 <= n && n <= len(args) {
			return args[n-1]
		}
		return ""
	case group(2) != "":
		return all
	}
	rest := args[min(max(number(group(3)), 1)-1, len(args)):]
	if group(4) != "" {
		rest = rest[:min(number(group(4)), len(rest))]
	}
	return strings.Join(rest, " ")
}

// number parses digits; a number too large to parse is larger than the number of arguments.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return math.MaxInt32
	}
	return n
}
