package glob

import (
	"fmt"
	"strings"
)

// Limits of a pattern, which is longer than any path, and of the alternatives that its braces expand to.
const (
	maxPattern      = 16 << 10
	maxAlternatives = 1024
	maxExpanded     = 1 << 20 // bytes of all alternatives
)

var errTooMany = fmt.Errorf("bad glob: its braces stand for more than %d patterns, or %d bytes", maxAlternatives,
	maxExpanded)

// alternatives expands the braces of a valid pattern: {a,b}c becomes ac and bc. The library tries nested combinations
// while it matches, whose number grows exponentially with the braces; without braces it scans a name about once for
// each position of the pattern.
func alternatives(pattern string) ([]string, error) {
	list, _, err := sequence(pattern, false)
	return list, err
}

// sequence expands a pattern up to its end or, inside braces, up to the comma or brace that ends the alternative. rest
// begins there.
func sequence(pattern string, inside bool) (list []string, rest string, err error) {
	list = []string{""}
	for pattern != "" {
		n := plain(pattern, inside)
		next := []string{pattern[:n]}
		if pattern = pattern[n:]; n == 0 && pattern[0] != '{' {
			return list, pattern, nil
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

// choice expands the alternatives in braces, and skips the closing brace.
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

// product returns every text of the first list followed by every text of the second.
func product(first, second []string) ([]string, error) {
	size := len(second)*length(first) + len(first)*length(second)
	if len(first)*len(second) > maxAlternatives || size > maxExpanded {
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

// plain returns the length of the pattern before the first brace that opens or, inside of braces, before the first
// brace or comma. What is escaped or in a class does not count.
func plain(pattern string, inside bool) int {
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '{', inside && (c == '}' || c == ','):
			return i
		}
	}
	return len(pattern)
}
