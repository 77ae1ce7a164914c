package edit

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxFolds limits the differences of one text: each takes memory. Texts with more are compared as they are.
	maxFolds = 1 << 18
	// longestFold is how many bytes longer than the character a plain form can be: that of U+FDFA has 33 for 3.
	longestFold = 30
)

// fold returns a view of a text without the differences that models make when they repeat it: compatibility characters
// are normalised, blanks at the ends of lines are removed, and typographic quotes, dashes and spaces are plain ones. It
// follows the reference's normalisation rule by rule. ok is false if there are more than maxFolds differences.
func fold(text []byte) (v view, ok bool) {
	if isFolded(text) {
		return view{text: text}, true
	}
	b := builder{text: make([]byte, 0, len(text)+min(len(text), maxFolds*longestFold))}
	line := 0 // start of the current line in b.text
	for i := 0; i < len(text) && len(b.parts) <= maxFolds; {
		if text[i] == '\n' {
			b.trim(line, i)
			b.text = append(b.text, '\n')
			line = len(b.text)
			i++
			continue
		}
		n := plainRun(text[i:])
		if n > 0 {
			b.text = append(b.text, text[i:i+n]...)
			i += n
			continue
		}
		n = norm.NFKC.NextBoundary(text[i:], true)
		segment := text[i : i+n]
		if folded, changed := plain(segment); changed {
			b.put(folded, i, n)
		} else {
			b.text = append(b.text, segment...)
		}
		i += n
	}
	if len(b.parts) > maxFolds {
		return view{}, false
	}
	b.trim(line, len(text))
	return view(b), true
}

// isFolded reports whether a text is ASCII without blanks at the ends of lines, which stays as it is. Most files are;
// no copy of them is made.
func isFolded(text []byte) bool {
	end := true // of a line
	for i := len(text) - 1; i >= 0; i-- {
		c := text[i]
		if c >= utf8.RuneSelf || end && c != '\n' && isBlank(rune(c)) {
			return false
		}
		end = c == '\n'
	}
	return true
}

// plainRun returns how many bytes at the start of text are ASCII that no following character can combine with.
func plainRun(text []byte) int {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return max(0, i-1)
		}
		if text[i] == '\n' {
			return i
		}
	}
	return len(text)
}

// trim removes the blanks at the end of the line that begins at line in the view and ends at end in the source.
func (b *builder) trim(line, end int) {
	n := len(b.text)
	for n > line {
		r, size := utf8.DecodeLastRune(b.text[line:n])
		if !isBlank(r) {
			break
		}
		n -= size
	}
	if n == len(b.text) {
		return
	}
	for k := len(b.parts); k > 0 && b.parts[k-1].end() > n; k-- {
		if last := &b.parts[k-1]; last.at < n {
			last.size = n - last.at
			break
		}
		b.parts = b.parts[:k-1]
	}
	b.text = b.text[:n]
	from := view{parts: b.parts}.span(n, n).from
	b.put("", from, end-from)
}

// plain returns a segment with compatibility characters normalised and typographic characters replaced, if that changes
// it. It makes no copy of other segments.
func plain(segment []byte) (text string, changed bool) {
	typographic := func(r rune) bool { return plainRune(r) != r }
	if norm.NFKC.QuickSpan(segment) == len(segment) && !bytes.ContainsFunc(segment, typographic) {
		return "", false
	}
	text = strings.Map(plainRune, norm.NFKC.String(string(segment)))
	return text, text != string(segment)
}

func plainRune(r rune) rune {
	switch {
	case r >= 0x2018 && r <= 0x201B:
		return '\''
	case r >= 0x201C && r <= 0x201F:
		return '"'
	case r >= 0x2010 && r <= 0x2015, r == 0x2212:
		return '-'
	case r == 0xA0, r >= 0x2002 && r <= 0x200A, r == 0x202F, r == 0x205F, r == 0x3000:
		return ' '
	}
	return r
}

// isBlank reports whether JavaScript's trimEnd removes a character.
func isBlank(r rune) bool {
	switch {
	case r >= '\t' && r <= '\r', r == ' ', r == 0xA0, r == 0x1680, r >= 0x2000 && r <= 0x200A,
		r == 0x2028, r == 0x2029, r == 0x202F, r == 0x205F, r == 0x3000, r == 0xFEFF:
		return true
	}
	return false
}
