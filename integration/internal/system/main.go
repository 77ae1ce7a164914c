//go:build unix

package system

import (
	"os"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/process"
)

// built are the directories of built programs.
var (
	builtMu sync.Mutex
	built   []string
)

// Main runs the tests of a package that starts processes, with the given number in parallel. It fails if a goroutine or
// a process is left.
func Main(m *testing.M, atOnce int) {
	if err := process.AdoptOrphans(); err != nil {
		panic(err)
	}
	bustest.Run(m, atOnce, func(code int) int {
		for _, dir := range built {
			_ = os.RemoveAll(dir) // it is a temporary one
		}
		return process.NothingLeft(code)
	})
}

// Programs returns a function that builds programs of the project at its first call, with [process.Build], and returns
// their directory. [Main] removes the directory.
func Programs(names ...string) func() (dir string, err error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "loopbus-programs-")
		if err != nil {
			return "", err
		}
		builtMu.Lock()
		built = append(built, dir)
		builtMu.Unlock()
		return dir, process.Build(dir, names...)
	})
}
