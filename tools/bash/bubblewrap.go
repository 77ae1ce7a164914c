package bash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// bubblewrap returns the path of the program bwrap (https://github.com/containers/bubblewrap), with links resolved: the
// first one in PATH that no command can replace. What is below the root, or is reached by a name there, may have been
// written by a command.
func bubblewrap(root string) (string, error) {
	const program = "bwrap"
	left := ""
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) { // package exec does not start programs from there either
			continue
		}
		path, err := exec.LookPath(filepath.Join(dir, program))
		if err != nil {
			continue
		}
		real, err := resolve(path) // once: a command may change links meanwhile
		if err == nil && !below(root, path) && !below(root, real) {
			return real, nil
		}
		left = "; " + path + " is below the workspace " + root + ", where a command could replace it"
	}
	return "", fmt.Errorf("%w: %s is in no directory of PATH%s", exec.ErrNotFound, program, left)
}
