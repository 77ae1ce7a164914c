package edit

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/seek"
)

// A replacement is one requested edit, with LF line ends.
type replacement struct {
	OldText string `json:"oldText"`
	NewText string `json:"newText"`
}

// A match is the position where an edit applies: text[at:end] of the searched view.
type match struct {
	edit    int // index in the list of edits
	at, end int
	newText string
}

// A search searches a file for edits: exactly and, if an edit is not found that way, for all of them in the folded
// text.
type search struct {
	path   string // as the model gave it
	text   view   // of the file
	folded view   // of text
	exact  bool   // text has too many differences to be folded
}

func newSearch(path string, text view) search {
	folded, ok := fold(text.text)
	return search{path, text, folded, !ok}
}

// find returns the matches of the edits, in the order of the text, and whether they are positions in the folded text.
// Each edit must match exactly once. It stops when the context ends, because each edit scans the whole file.
func (s search) find(ctx context.Context, edits []replacement) (found []match, folded bool, err error) {
	for i, e := range edits {
		if e.OldText == "" {
			return nil, false, emptyOldText(s.path, i, len(edits))
		}
	}
	base := s.text.text
	for _, e := range edits {
		if s.exact {
			break
		}
		at, _, err := locate(ctx, base, e.OldText, false)
		if err != nil {
			return nil, false, err
		}
		if at < 0 {
			base, folded = s.folded.text, true
			break
		}
	}
	for i, e := range edits {
		at, length, err := locate(ctx, base, e.OldText, folded)
		if err != nil {
			return nil, false, err
		}
		if at < 0 {
			return nil, false, notFound(s.path, i, len(edits))
		}
		n, err := s.occurrences(ctx, e.OldText)
		if err != nil {
			return nil, false, err
		}
		if n > 1 {
			return nil, false, duplicate(s.path, i, len(edits), n)
		}
		found = append(found, match{i, at, at + length, e.NewText})
	}
	slices.SortStableFunc(found, func(a, b match) int { return cmp.Compare(a.at, b.at) })
	return found, folded, nil
}

// locate returns the first match of a text, exact or folded, -1 if there is none.
func locate(ctx context.Context, base []byte, text string, folded bool) (at, length int, err error) {
	sought := []byte(text)
	if at, _, err = seek.Seek(ctx, base, sought, 1); at >= 0 || err != nil || !folded {
		return at, len(sought), err
	}
	other, ok := fold(sought)
	if !ok || len(other.text) == 0 {
		return -1, 0, nil
	}
	at, _, err = seek.Seek(ctx, base, other.text, 1)
	return at, len(other.text), err
}

// occurrences counts how often the folded text occurs; if folding leaves nothing of the text, or is not possible, the
// exact text.
func (s search) occurrences(ctx context.Context, text string) (n int, err error) {
	sought, base := []byte(text), s.text.text
	if folded, ok := fold(sought); ok && !s.exact && len(folded.text) > 0 {
		sought, base = folded.text, s.folded.text
	}
	_, n, err = seek.Seek(ctx, base, sought, math.MaxInt)
	return n, err
}

// The texts below are known to models and part of the recorded behaviour.

func emptyOldText(path string, i, of int) error {
	if of == 1 {
		return tools.Failf("oldText must not be empty in %s.", path)
	}
	return tools.Failf("edits[%d].oldText must not be empty in %s.", i, path)
}

func notFound(path string, i, of int) error {
	if of == 1 {
		return tools.Failf("Could not find the exact text in %s. The old text must match exactly including all "+
			"whitespace and newlines.", path)
	}
	return tools.Failf("Could not find edits[%d] in %s. The oldText must match exactly including all whitespace and "+
		"newlines.", i, path)
}

func duplicate(path string, i, of, n int) error {
	if of == 1 {
		return tools.Failf("Found %d occurrences of the text in %s. The text must be unique. Please provide more "+
			"context to make it unique.", n, path)
	}
	return tools.Failf("Found %d occurrences of edits[%d] in %s. Each oldText must be unique. Please provide more "+
		"context to make it unique.", n, i, path)
}

func overlap(path string, i, j int) error {
	return tools.Failf("edits[%d] and edits[%d] overlap in %s. Merge them into one edit or target disjoint regions.", i, j,
		path)
}

func noChange(path string, of int) error {
	if of == 1 {
		return tools.Failf("No changes made to %s. The replacement produced identical content. This might indicate an "+
			"issue with special characters or the text not existing as expected.", path)
	}
	return tools.Failf("No changes made to %s. The replacements produced identical content.", path)
}
