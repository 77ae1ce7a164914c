package natsio_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/natsio"
)

func TestLiteral(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]bool{
		"a": true, "agent.evt.s1": true, "a.*b": true, "a.b>": true,
		"": false, "*": false, ">": false, "a.*": false, "a.>": false, "*.a": false, "a..b": false, "a.b\x7f": false,
	} {
		if natsio.Literal(subject) != want {
			t.Errorf("%q: want %v", subject, want)
		}
	}
}
