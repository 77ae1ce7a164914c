package models

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestPartReaderErrorsAreFinal reads a payload that is too big or lacks a part, to its last part. The last part must
// not complete it.
func TestPartReaderErrorsAreFinal(t *testing.T) {
	t.Parallel()
	part := func(seq uint64, more bool, n int) *nats.Msg {
		return partMsg("s", "", seq, more, []byte(strings.Repeat("x", n)))
	}
	for name, c := range map[string]struct {
		parts []*nats.Msg
		want  string
	}{
		"too big": {[]*nats.Msg{part(1, true, 6), part(2, true, 6), part(3, false, 1)}, "more than 10 bytes"},
		"a part missing": {[]*nats.Msg{part(1, true, 2), part(3, true, 2), part(2, false, 2)},
			"message 2 of the call is missing"},
	} {
		r := partReader{limit: 10}
		for i, m := range c.parts {
			payload, whole, err := r.read(m)
			if i > 0 && (err == nil || !strings.Contains(err.Error(), c.want) || whole || payload != nil) {
				t.Errorf("%s, part %d: %q, %v, %v", name, i+1, payload, whole, err)
			}
		}
	}
}
