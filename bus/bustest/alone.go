package bustest

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// aloneVariable has the name of the test that the process runs.
const aloneVariable = "LOOPBUS_TEST_ALONE"

// Alone runs a test that measures the memory or the processor time of its process in a separate process, which runs
// nothing else. In that process Alone returns true. In the calling process it marks the test as parallel, starts the
// separate process with the same flags, waits for it, fails the test if it failed there, and returns false: then the
// caller has to return.
func Alone(t *testing.T) bool {
	t.Helper()
	t.Parallel()
	if os.Getenv(aloneVariable) == t.Name() {
		return true
	}
	out, err := alone(t.Context(), t.Name())
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("in a separate process: %v", err)
	}
	return false
}

// alone runs a test in a separate process, with these additions to the environment, and returns its output.
func alone(ctx context.Context, name string, env ...string) ([]byte, error) {
	args := []string{"-test.v", "-test.run=^" + regexp.QuoteMeta(name) + "$"}
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "test.timeout" || !strings.HasPrefix(f.Name, "test.") {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), aloneVariable+"="+name), env...)
	return cmd.CombinedOutput()
}
