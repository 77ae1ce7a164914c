package driver

import (
	"errors"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// A block refuses the call even if the log has no reason for it.
func TestBlockedCallIsRefused(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"not here": "not here", "": textBlocked} {
		args, err := decidedArgs(&schemas.HookDecision{Block: true, Reason: reason}, []byte(`{"v":"x"}`))
		var refusal refusalError
		if args != nil || !errors.As(err, &refusal) || string(refusal) != want {
			t.Errorf("%q: %s, %v, want a refusal %q", reason, args, err, want)
		}
	}
}
