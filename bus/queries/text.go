package queries

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// folded is a text for case-insensitive search. A query may search a hundred thousand sessions, so it does not copy
// texts, and decodes UTF-8 only if necessary.
type folded struct {
	ascii string // in lower case; empty if the text has other characters
	runes []rune // in lower case
	room  []rune
}

func newFolded(s string) *folded {
	s = strings.ToLower(strings.Join(strings.Fields(s), " ")) // normalized like the texts of the index
	if isASCII(s) {
		return &folded{ascii: s}
	}
	return &folded{runes: []rune(s)}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// in reports whether s contains the text. The empty text is contained in every string.
func (f *folded) in(s string) bool {
	if len(f.runes) == 0 {
		return f.inBytes(s)
	}
	f.room = f.room[:0]
	for _, r := range s {
		f.room = append(f.room, unicode.ToLower(r))
	}
	for i := 0; i+len(f.runes) <= len(f.room); i++ {
		if f.room[i] == f.runes[0] && slices.Equal(f.room[i:i+len(f.runes)], f.runes) {
			return true
		}
	}
	return false
}

func (f *folded) inBytes(s string) bool {
	if f.ascii == "" {
		return true
	}
	first := f.ascii[0]
	for i := 0; i+len(f.ascii) <= len(s); i++ {
		if lower[s[i]] == first && f.at(s[i:]) {
			return true
		}
	}
	return false
}

func (f *folded) at(s string) bool {
	for i := 1; i < len(f.ascii); i++ {
		if lower[s[i]] != f.ascii[i] {
			return false
		}
	}
	return true
}

// lower maps ASCII letters to lower case and other bytes to themselves.
var lower = func() (table [256]byte) {
	for i := range table {
		if table[i] = byte(i); 'A' <= i && i <= 'Z' {
			table[i] += 'a' - 'A'
		}
	}
	return table
}()
