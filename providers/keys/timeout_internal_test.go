package keys

import (
	"os"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// TestASlowKeyCommandMayBeRetried checks that a command that takes too long is no refused key.
func TestASlowKeyCommandMayBeRetried(t *testing.T) {
	t.Parallel()
	c := NewCommand(os.Environ(), "sh", "-c", "exec sleep 60")
	c.timeout = 50 * time.Millisecond
	if _, err := c.Key(t.Context(), "vendor"); schemas.FailureCodeOf(err) != schemas.FailureTimeout {
		t.Errorf("%s: %v, want a timeout", schemas.FailureCodeOf(err), err)
	}
}
