package schemas_test

import (
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

func TestAResultIsTakenByTheNonceOfItsCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call, result, tool string
		want               bool
	}{
		{"N1", "N1", "bash", true},
		{"N1", "N2", "bash", false},
		{"N1", schemas.NoNonce, "bash", false}, // a request without a nonce, sent by somebody else
		{"N1", "", "bash", true},               // of an older worker
		{"N1", "", "read", false},
		{"", "", "bash", true}, // a call of an older runner
		{"", schemas.NoNonce, "bash", true},
	} {
		r := &schemas.ToolResponse{Nonce: c.result, ToolName: c.tool}
		if got := r.Answers(c.call, "bash"); got != c.want {
			t.Errorf("call with nonce %q, result of %s with %q: %t, want %t", c.call, c.tool, c.result, got, c.want)
		}
	}
}
