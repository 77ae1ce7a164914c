//go:build unix

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build makes programs of the project in dir, with the race detector if the caller has it. Programs are named by their
// directories, and in dir by the last part of that.
func Build(dir string, programs ...string) error {
	for _, name := range programs {
		if err := copyProgram("github.com/loopbus/loopbus/"+name, filepath.Join(dir, filepath.Base(name))); err != nil {
			return err
		}
	}
	return nil
}

// copyProgram has go run copy a program instead of running it: go run keeps what it has linked, which go build does
// not, so the tests of several packages link a program once.
func copyProgram(pkg, to string) error {
	args := []string{"run", "-exec", `sh -c 'cp "$0" "$LOOPBUS_TEST_PROGRAM"'`}
	if raceEnabled {
		args = append(args, "-race")
	}
	run := exec.Command("go", append(args, pkg)...)
	run.Env = append(os.Environ(), "LOOPBUS_TEST_PROGRAM="+to)
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
