package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// maxLine is how many characters of a line are shown where lines are cut.
const maxLine = 400

// oneLine is Visible on one line, cut at a number of characters.
func oneLine(s string, limit int) string {
	s = cli.Visible(cutText(s, limit))
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
