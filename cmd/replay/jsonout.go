package main

import (
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// jsonOut is where JSON goes. To a file or pipe it goes byte for byte: hashes are over bytes. On a terminal the
// characters that JSON leaves alone and a terminal does not are written as \u escapes, which mean the same.
func (a *app) jsonOut() io.Writer {
	if a.toTerm {
		return jsonForTerminal{a.out}
	}
	return a.out
}

// jsonForTerminal escapes JSON whose characters are not split between writes.
type jsonForTerminal struct{ w io.Writer }

func (j jsonForTerminal) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r < 0x7f || !cli.Unsafe(r): // below 0x7f JSON itself has escaped what is not printable, in strings
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
