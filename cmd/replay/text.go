package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// maxLine is the number of characters to which lines are cut.
const maxLine = 400

// oneLine is [cli.OneLine], cut at a number of characters.
func oneLine(s string, limit int) string {
	return cli.OneLine(cutText(s, limit))
}

// cutText cuts a text to a number of characters and notes how many are missing; 0 means no limit.
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

func millis(ms int64) string { return (schemas.Milliseconds(ms)).String() }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// style colours text; false leaves it unchanged. Escape text with [cli.Visible] first.
type style bool

func (s style) paint(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) dim(text string) string  { return s.paint("2", text) }
func (s style) bold(text string) string { return s.paint("1", text) }
func (s style) call(text string) string { return s.paint("36", text) }

// problem returns the text in red if there is a problem.
func (s style) problem(is bool, text string) string {
	if !is {
		return text
	}
	return s.paint("31", text)
}
