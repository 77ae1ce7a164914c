package cli

import (
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// JSONOut returns a writer for JSON. A file or pipe receives it unchanged, because hashes are computed over bytes.
// For a terminal it escapes, as \u sequences with the same meaning, the characters that JSON permits and that could
// control the terminal. A character must not be split between two writes.
func JSONOut(out io.Writer, terminal bool) io.Writer {
	if terminal {
		return jsonForTerminal{out}
	}
	return out
}

type jsonForTerminal struct{ w io.Writer }

func (j jsonForTerminal) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r < 0x7f || !Unsafe(r): // below 0x7f JSON itself has escaped what is not printable, in strings
			out = append(out, rest[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		rest = rest[n:]
	}
	if _, err := j.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
