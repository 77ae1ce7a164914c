package ls

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/collate"
	"golang.org/x/text/language"

	"github.com/loopbus/loopbus/tools/internal/sorted"
)

const (
	// maxEntries is how many bytes of entries are enough to keep: some hundred thousand entries. A larger directory is
	// read several times, if so many are wanted.
	maxEntries = 16 << 20
	// entrySize is how many bytes an entry takes beside its name and its key.
	entrySize = 128
)

// An entry is a name and its key: names are in the order of the bytes of their keys.
type entry struct {
	name string
	key  []byte
}

// ordered puts names in the order that people expect: case ignored, by the root collation of Unicode, punctuation
// before digits before letters. Names that differ in case only are in byte order. room is how many bytes of entries are
// enough to keep.
func ordered(room int, read func(add func(name string)) error) iter.Seq2[[]entry, error] {
	var buf collate.Buffer
	collator, lower := collate.New(language.Und), cases.Lower(language.Und)
	return sorted.Order[entry]{
		Compare: func(a, b entry) int {
			if c := bytes.Compare(a.key, b.key); c != 0 {
				return c
			}
			return strings.Compare(a.name, b.name)
		},
		Size: func(e entry) int { return len(e.name) + len(e.key) + entrySize },
		Room: room,
	}.Batches(func(add func(entry)) error {
		return read(func(name string) {
			add(entry{name, slices.Clone(collator.KeyFromString(&buf, lower.String(name)))})
			buf.Reset()
		})
	})
}
