//go:build unix

package process

import (
	"fmt"
	"os"
	"time"
)

// leftGrace is how long what tests have started may take to end after them.
const leftGrace = 5 * time.Second

// NothingLeft is for the end of TestMain: it returns the code of the tests, or 1 if they have left a process behind.
// [AdoptOrphans] has to come before them.
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
