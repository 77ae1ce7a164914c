//go:build !linux

package jail

import (
	"errors"
	"os/exec"
)

var errNotLinux = errors.New("sandboxes are made of what only Linux has")

// Main does nothing here.
func Main() {}

// Available says that there are no sandboxes here.
func Available() error { return errNotLinux }

// Command says that there are no sandboxes here.
func Command(Spec) (cmd *exec.Cmd, release func(), err error) { return nil, nil, errNotLinux }

// Hint is empty.
func Hint() string { return "" }

func isRoot() bool { return false }
