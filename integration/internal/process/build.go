//go:build unix

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds programs of the project in dir, with the race detector if the caller was built with it. A program is
// named by its directory; its file in dir has the last part of that name.
func Build(dir string, programs ...string) error {
	for _, name := range programs {
		if err := copyProgram("github.com/loopbus/loopbus/"+name, filepath.Join(dir, filepath.Base(name))); err != nil {
			return err
		}
	}
	return nil
}

// copyProgram makes go run copy a program instead of running it: go run caches the linked program, go build does not.
// So the tests of several packages link a program once.
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
