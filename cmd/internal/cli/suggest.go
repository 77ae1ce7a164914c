package cli

import (
	"fmt"
	"strings"
)

// Suggest returns ", did you mean …?" if one of the names resembles the given one, else "".
func Suggest(given string, names []string) string {
	if s := closest(given, names); s != "" {
		return fmt.Sprintf(", did you mean %s?", s)
	}
	return ""
}

// closest returns the name with the smallest edit distance to the given one, at most a third of its length. A name
// that is the only one to begin with the given one counts as close, too.
func closest(given string, names []string) (best string) {
	if len(given) == 0 || len(given) > 100 {
		return ""
	}
	given = strings.ToLower(given)
	least := max(1, len(given)/3) + 1
	longer, longest := 0, ""
	for _, name := range names {
		lower := strings.ToLower(name)
		if d := distance(given, lower); d < least {
			best, least = name, d
		}
		if strings.HasPrefix(lower, given) {
			longer, longest = longer+1, name
		}
	}
	if best == "" && longer == 1 && len(given) > 2 {
		return longest
	}
	return best
}

// distance returns the edit distance: letters added, left out, changed, or swapped with the next one.
func distance(a, b string) int {
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
