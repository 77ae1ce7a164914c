//go:build unix

package system

import (
	"os"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/process"
)

// built are the directories of programs.
var (
	builtMu sync.Mutex
	built   []string
)

// Main runs the tests of a package that starts processes, so many parallel ones at once. It fails if a goroutine or a
// process is left.
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

// Programs returns a function that makes programs of the project, as [process.Build] does, when it is called first, and
// returns the directory they are in. [Main] removes it.
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
