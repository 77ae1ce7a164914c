package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What comes out of a log was written by models, tools and people. None of it may drive a terminal: move its cursor,
// change its title, hide text or turn it around.

// maxLine is how many characters of a line are shown where lines are cut.
const maxLine = 400

// visible returns a text with everything written out that a terminal would obey or not show, but for line breaks and
// tabs.
func visible(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if !strings.ContainsFunc(s, unsafe) {
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
		case unsafe(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unsafe(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// unsafe reports whether a character has to be written out: a control, a broken byte, a line break that is not \n, or an
// invisible format character, of which only the joiners of emoji and scripts are harmless.
func unsafe(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	case utf8.RuneError, '\u2028', '\u2029':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// oneLine is visible on one line, cut at a number of characters.
func oneLine(s string, limit int) string {
	s = visible(cutText(s, limit))
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(s)
}

// cutText cuts a text at a number of characters and says how many are missing; 0 is no limit.
func cutText(s string, limit int) string {
	if limit <= 0 || len(s) <= limit {
		return s
	}
	end := 0
	for range limit {
		_, n := utf8.DecodeRuneInString(s[end:])
		end += n
	}
	if missing := utf8.RuneCountInString(s[end:]); missing > 0 {
		return fmt.Sprintf("%s… +%d characters", s[:end], missing)
	}
	return s
}

// indent puts spaces before every line that is not empty.
func indent(s string, width int) string {
	margin := strings.Repeat(" ", width)
	var b strings.Builder
	for line := range strings.Lines(s) {
		if line != "\n" {
			b.WriteString(margin)
		}
		b.WriteString(line)
	}
	return b.String()
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func dollars(cost float64) string { return fmt.Sprintf("$%.4f", cost) }

func millis(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
