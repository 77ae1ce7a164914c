package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// jsonScanner parses JSON text without decoding the values that it skips. It accepts all JSON, and some text that is
// not JSON inside of skipped values: a caller that uses these decodes them.
type jsonScanner struct {
	text []byte
	pos  int
}

var errJSON = errors.New("not the JSON that is expected")

// next returns the next byte that is not white space, 0 at the end.
func (s *jsonScanner) next() byte {
	for ; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// skip goes past the byte c, if it is next.
func (s *jsonScanner) skip(c byte) bool {
	if s.next() != c {
		return false
	}
	s.pos++
	return true
}

// list calls f for each element of the list or object that begins with open, until f fails.
func (s *jsonScanner) list(open, end byte, f func() error) error {
	if !s.skip(open) {
		return errJSON
	}
	if s.skip(end) {
		return nil
	}
	for {
		if err := f(); err != nil {
			return err
		}
		if s.skip(end) {
			return nil
		}
		if !s.skip(',') {
			return errJSON
		}
	}
}

// str returns the next string, decoded. It may be part of the text.
func (s *jsonScanner) str() ([]byte, error) {
	raw, err := s.value()
	if err != nil || raw[0] != '"' {
		return nil, errJSON
	}
	inner := raw[1 : len(raw)-1]
	for i, c := range inner {
		if c < ' ' {
			return nil, errJSON
		}
		if c == '\\' {
			return unescaped(raw, inner, i)
		}
	}
	return inner, nil
}

// escapes are the letters of common escapes, and escaped what they stand for.
var escapes, escaped = []byte("\"\\ntr"), []byte("\"\\\n\t\r")

// unescaped decodes a string whose first escape is at i. It handles the most common escapes itself.
func unescaped(raw, inner []byte, i int) ([]byte, error) {
	out := append(make([]byte, 0, len(inner)), inner[:i]...)
	for ; i < len(inner); i++ {
		c := inner[i]
		switch {
		case c == '\\' && i+1 < len(inner) && bytes.IndexByte(escapes, inner[i+1]) >= 0:
			i++
			c = escaped[bytes.IndexByte(escapes, inner[i])]
		case c == '\\', c < ' ', c >= utf8.RuneSelf:
			var decoded string
			err := json.Unmarshal(raw, &decoded)
			return []byte(decoded), err
		}
		out = append(out, c)
	}
	return out, nil
}

// value returns the text of the next value.
func (s *jsonScanner) value() ([]byte, error) {
	s.next()
	start, depth := s.pos, 0
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch c {
		case '"':
			if !s.endOfString() {
				return nil, errJSON
			}
		case '{', '[':
			depth++
		case '}', ']', ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 && s.pos == start {
				return nil, errJSON
			}
			if depth == 0 {
				return s.text[start:s.pos], nil
			}
			if c == '}' || c == ']' {
				depth--
			}
		}
		s.pos++
		if depth == 0 && (c == '"' || c == '}' || c == ']') {
			return s.text[start:s.pos], nil
		}
	}
	if depth > 0 || s.pos == start {
		return nil, errJSON
	}
	return s.text[start:s.pos], nil
}

// endOfString moves to the quote that ends the string that begins here.
func (s *jsonScanner) endOfString() bool {
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch s.text[s.pos] {
		case '\\':
			s.pos++
		case '"':
			return true
		}
	}
	return false
}
