package glob

import (
	"fmt"
	"strings"
)

// Bounds of what the braces of a pattern stand for, and of a pattern itself: a path is shorter.
const (
	maxPattern      = 16 << 10
	maxAlternatives = 1024
	maxWrittenOut   = 1 << 20 // bytes of all of them
)

var errTooMany = fmt.Errorf("bad glob: its braces stand for more than %d patterns, or %d bytes", maxAlternatives,
	maxWrittenOut)

// alternatives writes the braces of a valid pattern out: {a,b}c becomes ac and bc. The library tries them one inside
// the other while it matches, which takes for ever with a few dozen of them; without braces it goes through a name
// about once for each place of the pattern.
func alternatives(pattern string) ([]string, error) {
	list, _, err := sequence(pattern, false)
	return list, err
}

// sequence reads a pattern to its end or, inside braces, to the comma or brace that ends the alternative, where rest
// begins.
func sequence(pattern string, inside bool) (list []string, rest string, err error) {
	list = []string{""}
	for pattern != "" {
		n := plain(pattern)
		next := []string{pattern[:n]}
		if pattern = pattern[n:]; n == 0 && pattern[0] != '{' {
			if inside {
				return list, pattern, nil
			}
			next, pattern = []string{pattern[:1]}, pattern[1:] // a comma outside is a comma
		} else if n == 0 {
			if next, pattern, err = choice(pattern[1:]); err != nil {
				return nil, "", err
			}
		}
		if list, err = product(list, next); err != nil {
			return nil, "", err
		}
	}
	return list, "", nil
}

// choice reads what stands in braces, and the brace that closes them.
func choice(pattern string) (list []string, rest string, err error) {
	for {
		one, rest, err := sequence(pattern, true)
		if err != nil {
			return nil, "", err
		}
		if list = append(list, one...); len(list) > maxAlternatives {
			return nil, "", errTooMany
		}
		if !strings.HasPrefix(rest, ",") {
			return list, strings.TrimPrefix(rest, "}"), nil
		}
		pattern = rest[1:]
	}
}

// product is every text of the first list with every one of the second behind it.
func product(first, second []string) ([]string, error) {
	size := len(second)*length(first) + len(first)*length(second)
	if len(first)*len(second) > maxAlternatives || size > maxWrittenOut {
		return nil, errTooMany
	}
	all := make([]string, 0, len(first)*len(second))
	for _, a := range first {
		for _, b := range second {
			all = append(all, a+b)
		}
	}
	return all, nil
}

func length(list []string) (n int) {
	for _, s := range list {
		n += len(s)
	}
	return n
}

// plain is how much of a pattern stands before the first brace or comma that is neither escaped nor in a class.
func plain(pattern string) int {
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '{', c == '}', c == ',':
			return i
		}
	}
	return len(pattern)
}
