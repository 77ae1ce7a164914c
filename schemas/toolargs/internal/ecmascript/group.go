package ecmascript

import (
	"fmt"
	"strings"
)

// group translates the opening of a group.
func (t *translator) group() error {
	for _, look := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
		if strings.HasPrefix(t.in, look) {
			t.beyond = true
			t.write(len(look), "(?:")
			return nil
		}
	}
	switch {
	case !strings.HasPrefix(t.in, "(?"):
		t.write(1, "(")
	case strings.HasPrefix(t.in, "(?:"), strings.HasPrefix(t.in, "(?<"):
		t.write(3, t.in[:3])
	default:
		return fmt.Errorf("unknown group %q", t.in[:min(3, len(t.in))])
	}
	return nil
}
