package loop

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// A text is cut by the size of its JSON, whatever its characters are.
func TestTextIsCutToItsJSONLimit(t *testing.T) {
	t.Parallel()
	const most = 1000
	for _, c := range []string{"x", "\x01", "\n", `"`, `\`, "é", "\u2028", "\U0001F600", "<", "\x7f", "\uFFFD"} {
		text := strings.Repeat(c, most)
		got := fitting(text, most)
		data, err := schemas.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(data) - len(`""`); n > most+64 || n < most-8 {
			t.Errorf("%q: %d bytes of JSON", c, n)
		}
		if short := fitting(c, most); short != c {
			t.Errorf("%q became %q", c, short)
		}
	}
}
