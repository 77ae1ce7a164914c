package utf8text_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/loopbus/loopbus/tools/internal/utf8text"
)

func TestBytesReplacesMaximalSubparts(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"valid text passes", "aé中😀\x00", "aé中😀\x00"},
		{"byte order mark is kept", "\uFEFFa", "\uFEFFa"},
		{"lone bytes", "a\xff\xfe\x80b", "a\uFFFD\uFFFD\uFFFDb"},
		{"cut three-byte character", "\xe2\x82\n", "\uFFFD\n"},
		{"cut four-byte character", "\xf0\x9f\x98\n", "\uFFFD\n"},
		{"surrogate", "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"overlong", "\xc0\xaf\xe0\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"},
		{"beyond U+10FFFF", "\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
		{"cut at the end", "ab\xc3", "ab\uFFFD"},
		{"cut, then another character", "\xe2\xc3\xa9", "\uFFFDé"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(utf8text.Bytes([]byte(c.in))); got != c.want {
				t.Errorf("got %+q, want %+q", got, c.want)
			}
		})
	}
}

// The text is valid and does not depend on how the bytes are cut into pieces. Valid bytes are not changed.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("aé\xe2\x82\xf0\x9f\x98\x80\xed\xa0\x80\xc3"), 2)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		whole := utf8text.Bytes(in)
		if !utf8.Valid(whole) {
			t.Fatalf("%q decodes to invalid %q", in, whole)
		}
		if utf8.Valid(in) && !bytes.Equal(in, whole) {
			t.Fatalf("%q is valid and became %q", in, whole)
		}
		if size < 1 || size > 8 {
			size = 1
		}
		var d utf8text.Decoder
		var pieces []byte
		for rest := in; len(rest) > 0; {
			n := min(size, len(rest))
			pieces = d.Append(pieces, rest[:n])
			rest = rest[n:]
		}
		if pieces = d.Flush(pieces); !bytes.Equal(pieces, whole) {
			t.Fatalf("%q in pieces of %d: %q, as a whole: %q", in, size, pieces, whole)
		}
	})
}
