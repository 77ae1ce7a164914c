package bustest

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

const (
	failsVariable  = "LOOPBUS_TEST_ALONE_FAILS"
	parentVariable = "LOOPBUS_TEST_ALONE_PARENT"
)

func TestAlone(t *testing.T) {
	if !Alone(t) {
		return
	}
	if os.Getenv(failsVariable) != "" {
		t.Errorf("the parent process is %s", os.Getenv(parentVariable))
	}
}

// A test fails if it fails in its separate process: that process prints the reason and exits with an error.
func TestAloneFails(t *testing.T) {
	t.Parallel()
	parent := parentVariable + "=" + strconv.Itoa(os.Getpid())
	if out, err := alone(t.Context(), "TestAlone", parent); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v: %s", err, out)
	}
	out, err := alone(t.Context(), "TestAlone", parent, failsVariable+"=1")
	if err == nil || !strings.Contains(string(out), "the parent process is "+strconv.Itoa(os.Getpid())) {
		t.Errorf("%v: %s", err, out)
	}
}
