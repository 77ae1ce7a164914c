package ls

import (
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// order sorts names as people expect: case ignored, by the root collation of Unicode, punctuation before digits before
// letters. Names that differ in case only are in byte order.
func order(names []string) {
	type entry struct {
		name string
		key  []byte
	}
	var buf collate.Buffer
	collator, lower := collate.New(language.Und), cases.Lower(language.Und)
	entries := make([]entry, len(names))
	for i, name := range names {
		entries[i] = entry{name, collator.KeyFromString(&buf, lower.String(name))}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		if c := slices.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	for i, e := range entries {
		names[i] = e.name
	}
}
