//go:build !linux

package jail

import (
	"errors"
	"os/exec"
)

var errNotLinux = errors.New("sandboxes are made of what only Linux has")

// Main does nothing on this system.
func Main() {}

// Available returns an error: there are no sandboxes on this system.
func Available() error { return errNotLinux }

// Command returns an error: there are no sandboxes on this system.
func Command(Spec) (cmd *exec.Cmd, release func(), err error) { return nil, nil, errNotLinux }

// Hint returns "".
func Hint() string { return "" }

func isRoot() bool { return false }
