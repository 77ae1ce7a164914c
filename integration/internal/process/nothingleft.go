//go:build unix

package process

import (
	"fmt"
	"os"
	"time"
)

// leftGrace is how long processes that tests have started may take to end after the tests.
const leftGrace = 5 * time.Second

// NothingLeft has to be called at the end of TestMain, and [AdoptOrphans] before the tests. It returns the exit code of
// the tests, or 1 if they have left a process behind.
func NothingLeft(code int) int { return nothingLeft(code, leftGrace) }

func nothingLeft(code int, grace time.Duration) int {
	left := Left(grace)
	for _, p := range left {
		fmt.Fprintln(os.Stderr, "FAIL: the tests have left a process behind:", p)
	}
	if len(left) > 0 && code == 0 {
		return 1
	}
	return code
}
