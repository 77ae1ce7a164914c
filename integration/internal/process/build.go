//go:build unix

package process

import (
	"fmt"
	"os/exec"
)

// Build makes commands of the project in dir, with the race detector if the caller has it. Commands are named as their
// directories below cmd are.
func Build(dir string, commands ...string) error {
	args := []string{"build", "-o", dir}
	if raceEnabled {
		args = append(args, "-race")
	}
	for _, name := range commands {
		args = append(args, "github.com/loopbus/loopbus/cmd/"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", commands, err, out)
	}
	return nil
}
