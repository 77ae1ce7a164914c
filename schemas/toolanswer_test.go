package schemas_test

import (
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

func TestAResultIsTakenByTheNonceOfItsCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call, result string
		want         bool
	}{
		{"N1", "N1", true},
		{"N1", "N2", false},
		{"N1", schemas.NoNonce, false}, // a request without a nonce, sent by somebody else
		{"N1", "", false},              // of somebody who does not know it
		{"", "", true},                 // a call of an older runner
		{"", schemas.NoNonce, true},
	} {
		r := &schemas.ToolResponse{Nonce: c.result}
		if got := r.Answers(c.call); got != c.want {
			t.Errorf("call with nonce %q, result with %q: %t, want %t", c.call, c.result, got, c.want)
		}
	}
}
