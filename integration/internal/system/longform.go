package system

import (
	"flag"
	"testing"
)

var all = flag.Bool("all", false, "run the tests that the default suite leaves out, too")

// LongForm skips a test that the default suite leaves out because it costs much and is rarely the first to fail, unless
// -all is set. Every change runs it in .ci/run.
func LongForm(t testing.TB) {
	t.Helper()
	if !*all {
		t.Skip("not in the default suite: set -all, as .ci/run does")
	}
}
