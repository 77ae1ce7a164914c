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
	text  string
	parts []part // where text differs from the source, in order
}

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
		s.from, s.before = p.from, v.text[p.at:i]
	}
	p = v.last(j)
	switch {
	case j >= p.end():
		s.to = p.after(j)
	case j == p.at:
		s.to = p.from
	default:
		s.to, s.after = p.from+p.length, v.text[j:p.end()]
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
// UTF-8 are U+FFFD in the view.
func lines(raw []byte) view {
	if utf8.Valid(raw) && bytes.IndexByte(raw, '\r') < 0 {
		return view{text: string(raw)}
	}
	b := builder{text: make([]byte, 0, len(raw))}
	for i := 0; i < len(raw); {
		n := 1
		switch c := raw[i]; {
		case c == '\r':
			if i+1 < len(raw) && raw[i+1] == '\n' {
				n = 2
			}
			b.put("\n", i, n)
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
	return view{string(b.text), b.parts}
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
