// Package redact lets a redactor of secrets see through the escapes of JSON.
package redact

import (
	"fmt"
	"strings"
)

// maxLevels is how often JSON may be in JSON.
const maxLevels = 4

// unescape undoes the escapes that JSON may have of printable characters of ASCII.
var unescape = func() *strings.Replacer {
	pairs := []string{`\\`, `\`, `\/`, `/`, `\"`, `"`}
	for c := ' '; c <= '~'; c++ {
		pairs = append(pairs, fmt.Sprintf(`\u%04x`, c), string(c), fmt.Sprintf(`\u%04X`, c), string(c))
	}
	return strings.NewReplacer(pairs...)
}()

// Through returns what hide makes of a text, in which it replaces the secrets. If hide finds any once the escapes of
// JSON are undone, that text is returned instead: anyone can undo them.
func Through(text string, hide func(string) string) string {
	text = hide(text)
	for plain, level := text, 0; level < maxLevels && strings.Contains(plain, `\`); level++ {
		plain = unescape.Replace(plain)
		if hidden := hide(plain); hidden != plain {
			text, plain = hidden, hidden
		}
	}
	return text
}
