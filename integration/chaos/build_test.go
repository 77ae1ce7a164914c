//go:build unix

package chaos_test

import (
	"os"
	"sync"

	"github.com/loopbus/loopbus/integration/internal/process"
)

// build makes the commands of the project, once for all tests, and returns the directory they are in.
var build = sync.OnceValues(func() (dir string, err error) {
	dir = os.Getenv(binVariable)
	return dir, process.Build(dir, "cmd/runner", "cmd/toolworker")
})
