package edit

import (
	"bytes"
	"sort"
	"unicode/utf8"

	"github.com/loopbus/loopbus/tools/internal/utf8text"
)

// A view is a text derived from another one, its source, with the origin of each part. So a match in the view can be
// replaced in the source, and everything else in the source stays byte for byte.
type view struct {
	text  []byte
	parts []part // where text differs from the source, in order
}

// maxParts limits the parts of a view of lines, which take as much memory as the largest file. It has to be enough for
// the lines of a large file with CR LF.
const maxParts = 1 << 20

// A part maps view.text[at:at+size] to source[from:from+length]. Either may be empty.
type part struct{ at, size, from, length int }

func (p part) end() int { return p.at + p.size }

// A span is a range of the source. before and after are the text of the view at its edges that is outside of the
// requested range.
type span struct {
	from, to      int
	before, after string
}

// span returns the range of the source for text[i:j].
func (v view) span(i, j int) (s span) {
	p := v.last(i)
	if s.from = p.after(i); i < p.end() {
		s.from, s.before = p.from, string(v.text[p.at:i])
	}
	p = v.last(j)
	switch {
	case j >= p.end():
		s.to = p.after(j)
	case j == p.at:
		s.to = p.from
	default:
		s.to, s.after = p.from+p.length, string(v.text[j:p.end()])
	}
	return s
}

// after returns the position in the source of a position in the view; the part must be the last one before it.
func (p part) after(i int) int { return p.from + p.length + i - p.end() }

// last returns the last part that begins at or before i. Characters that were removed just before i count as before it:
// a match that ends at the end of a line includes the blanks there, and a match that begins there does not.
func (v view) last(i int) part {
	n := sort.Search(len(v.parts), func(n int) bool { return v.parts[n].at > i })
	if n == 0 {
		return part{}
	}
	return v.parts[n-1]
}

// lines returns a view of bytes as text in which every line ends in LF alone, as models write it. Bytes that are not
// UTF-8 are U+FFFD in the view. ok is false if the view has more than maxParts parts.
func lines(raw []byte) (v view, ok bool) {
	valid := utf8.Valid(raw)
	if valid && bytes.IndexByte(raw, '\r') < 0 {
		return view{text: raw}, true
	}
	// What is reserved is not copied while it grows. Pages that are not used take no memory.
	size, parts := len(raw), min(bytes.Count(raw, []byte("\r\n")), maxParts+1)
	if !valid {
		parts = min(len(raw), maxParts+1)
		size += len(string(utf8.RuneError)) * parts
	}
	b := builder{text: make([]byte, 0, size), parts: make([]part, 0, parts)}
	for i := 0; i < len(raw) && len(b.parts) <= maxParts; {
		n := 1
		switch c := raw[i]; {
		case c == '\r' && i+1 < len(raw) && raw[i+1] == '\n':
			n = 2
			b.put("\n", i, n)
		case c == '\r':
			b.text = append(b.text, '\n') // one byte for another: positions stay the same
		case c < utf8.RuneSelf:
			b.text = append(b.text, c)
		default:
			r, size := utf8.DecodeRune(raw[i:])
			if n = size; r == utf8.RuneError && size == 1 {
				n = utf8text.Subpart(raw[i:])
				b.put(string(utf8.RuneError), i, n)
				break
			}
			b.text = append(b.text, raw[i:i+n]...)
		}
		i += n
	}
	if len(b.parts) > maxParts {
		return view{}, false
	}
	return view(b), true
}

// linesText returns the text of a view of lines, however many parts it would have.
func linesText(raw []byte) []byte {
	if bytes.IndexByte(raw, '\r') < 0 && utf8.Valid(raw) {
		return raw
	}
	text := utf8text.Bytes(raw)
	kept := text[:0]
	for i, c := range text {
		switch {
		case c != '\r':
			kept = append(kept, c)
		case i+1 == len(text) || text[i+1] != '\n':
			kept = append(kept, '\n')
		}
	}
	return kept
}

// A builder builds a view.
type builder struct {
	text  []byte
	parts []part
}

// put appends text that stands for the next bytes of the source.
func (b *builder) put(text string, from, length int) {
	b.parts = append(b.parts, part{len(b.text), len(text), from, length})
	b.text = append(b.text, text...)
}
