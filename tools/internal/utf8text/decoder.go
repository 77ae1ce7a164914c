// Package utf8text decodes bytes that should be UTF-8 the way the WHATWG Encoding Standard does.
package utf8text

import "unicode/utf8"

const replacement = "\uFFFD"

// A Decoder converts a stream of bytes to valid UTF-8. Each maximal part of an ill-formed sequence becomes one
// U+FFFD; a byte order mark is kept. The zero value is ready for use. It is not safe for concurrent use.
type Decoder struct {
	pending []byte // the beginning of an incomplete character
}

// Append decodes src and appends the text to dst. A character cut off at the end of src is completed by the next
// call.
func (d *Decoder) Append(dst, src []byte) []byte {
	if len(d.pending) > 0 {
		src = append(d.pending, src...)
		d.pending = nil
	}
	for len(src) > 0 {
		n := validPrefix(src)
		dst = append(dst, src[:n]...)
		src = src[n:]
		if len(src) == 0 {
			break
		}
		n, more := illFormed(src)
		if more {
			d.pending = append([]byte(nil), src...)
			break
		}
		dst = append(dst, replacement...)
		src = src[n:]
	}
	return dst
}

// Flush ends the stream: an incomplete character becomes U+FFFD. The decoder can be reused.
func (d *Decoder) Flush(dst []byte) []byte {
	if len(d.pending) > 0 {
		d.pending = nil
		dst = append(dst, replacement...)
	}
	return dst
}

// Bytes decodes a whole text.
func Bytes(src []byte) []byte {
	var d Decoder
	return d.Flush(d.Append(make([]byte, 0, len(src)), src))
}

// Subpart returns how many bytes at the start of p become one U+FFFD, if p does not begin with a complete character
// and nothing follows it.
func Subpart(p []byte) int {
	n, _ := illFormed(p)
	return n
}

func validPrefix(p []byte) int {
	if utf8.Valid(p) { // the usual case, and much faster than the loop below
		return len(p)
	}
	i := 0
	for i < len(p) {
		if p[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(p[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	return i
}

// illFormed returns the length of the maximal subpart at the start of p, which must not begin with a complete
// character, and whether more bytes could still complete the character.
func illFormed(p []byte) (n int, more bool) {
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch b := p[0]; {
	case b >= 0xC2 && b <= 0xDF:
		need = 1
	case b >= 0xE0 && b <= 0xEF:
		need = 2
		if b == 0xE0 {
			low = 0xA0
		} else if b == 0xED {
			high = 0x9F // surrogates
		}
	case b >= 0xF0 && b <= 0xF4:
		need = 3
		if b == 0xF0 {
			low = 0x90
		} else if b == 0xF4 {
			high = 0x8F // beyond U+10FFFF
		}
	}
	for n = 1; n <= need; n++ {
		if n == len(p) {
			return n, true
		}
		if p[n] < low || p[n] > high {
			return n, false
		}
		low, high = 0x80, 0xBF
	}
	return 1, false
}
