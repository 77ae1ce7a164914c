package page

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/sessionfile"
)

// Markdown writes the session as a transcript.
func Markdown(w io.Writer, s *sessionfile.Session) error {
	v := viewOf(s)
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# %s\n\nsession %s, %s, %s\n", plain(v.Title), plain(v.ID), plain(v.Started), plain(v.CWD))
	items(b, v.Way)
	for _, other := range v.Branches {
		fmt.Fprintf(b, "\n# Another branch\n")
		if other.From != "" {
			fmt.Fprintf(b, "\nbelow %s\n", plain(other.From))
		}
		items(b, other.Way)
	}
	return b.Flush()
}

func items(b *bufio.Writer, way []item) {
	for _, it := range way {
		fmt.Fprintf(b, "\n## %s\n\n%s, %s", plain(it.Who), plain(it.ID), plain(it.Time))
		if it.Label != "" {
			fmt.Fprintf(b, ", label: %s", plain(it.Label))
		}
		b.WriteString("\n")
		for _, part := range it.Blocks {
			if part.Title != "" {
				fmt.Fprintf(b, "\n%s:\n", plain(part.Title))
			}
			if part.Text != "" {
				text := cli.Visible(part.Text) // a transcript is read in terminals, too
				fence := fenceFor(text)
				fmt.Fprintf(b, "\n%s\n%s\n%s\n", fence, strings.TrimSuffix(text, "\n"), fence)
			}
		}
	}
}

// fenceFor returns a fence that no line of the text closes.
func fenceFor(text string) string {
	longest, run := 0, 0
	for _, r := range text {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return strings.Repeat("`", max(3, longest+1))
}

// plain returns a text on one line with all markup escaped.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp):
			b.WriteByte(' ')
		case unicode.In(r, unicode.Cf):
		case strings.ContainsRune("\\`*_{}[]<>()#+!|~&", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}
