package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Models, tools and people wrote what a log contains. Printing it must not control the terminal: move the cursor,
// change the title, hide text or reverse it.

// Visible returns a text with all characters escaped that a terminal would obey or not show, except line breaks and
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

// Row writes a row of a [text/tabwriter] table, each cell with [OneLine], so that no cell can add rows or columns.
func Row(table io.Writer, cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = OneLine(fmt.Sprint(cell))
	}
	fmt.Fprintln(table, strings.Join(texts, "\t"))
}

// Unsafe reports whether a character must be escaped: a control character, an invalid byte, a line break other than
// \n, or an invisible format character. The joiners of emoji and scripts are harmless.
func Unsafe(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	case utf8.RuneError, '\u2028', '\u2029':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}
