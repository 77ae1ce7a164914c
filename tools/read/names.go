package read

import (
	"regexp"
	"strings"

	"golang.org/x/text/unicode/norm"
)

var beforeNoon = regexp.MustCompile(`(?i) (AM|PM)\.`)

// variants returns the names that a file requested as path may have, in the order in which they are tried. macOS writes
// a narrow no-break space before AM and PM in the names of screenshots, decomposes accents, and uses typographic
// apostrophes; models write none of these.
func variants(path string) []string {
	decomposed := norm.NFD.String(path)
	names := make([]string, 0, 4)
	for _, name := range []string{
		beforeNoon.ReplaceAllString(path, "\u202F$1."), decomposed, curly(path), curly(decomposed),
	} {
		if name != path {
			names = append(names, name)
		}
	}
	return names
}

func curly(path string) string { return strings.ReplaceAll(path, "'", "\u2019") }
