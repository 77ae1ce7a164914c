package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What comes out of a log was written by models, tools and people. None of it may drive a terminal: move its cursor,
// change its title, hide text or turn it around.

// Visible returns a text with everything written out that a terminal would obey or not show, but for line breaks and
// tabs.
func Visible(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if !strings.ContainsFunc(s, Unsafe) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == utf8.RuneError:
			b.WriteRune(r)
		case r == '\r':
			b.WriteString(`\r`)
		case Unsafe(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case Unsafe(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// OneLine is [Visible] on one line.
func OneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Visible(s))
}

// Row writes a row of a table of [text/tabwriter]: the cells as they are printed, each with [OneLine], so that none
// is a row or a column more than it is.
func Row(table io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = OneLine(fmt.Sprint(cell))
	}
	fmt.Fprintln(table, strings.Join(texts, "\t"))
}

// Unsafe reports whether a character has to be written out: a control, a broken byte, a line break that is not \n, or
// an inVisible format character, of which only the joiners of emoji and scripts are harmless.
func Unsafe(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	case utf8.RuneError, '\u2028', '\u2029':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}
