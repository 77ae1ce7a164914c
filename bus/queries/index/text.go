package index

import "unicode"

// Limits of the texts in an entry, in characters. The schema of a summary allows somewhat more.
const (
	maxTitle = 120
	maxText  = 240
	maxName  = 64
)

// cut returns the beginning of a text on one line, at most n characters. Runs of white space and control characters
// become one space; "…" marks an omission; invalid UTF-8 becomes U+FFFD.
func cut(s string, n int) string {
	out := make([]rune, 0, min(n, len(s)))
	space := false
	for _, r := range s {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			space = len(out) > 0
			continue
		}
		if space && len(out) < n {
			out = append(out, ' ')
		}
		if space = false; len(out) >= n {
			out[n-1] = '…'
			break
		}
		out = append(out, r)
	}
	return string(out)
}
