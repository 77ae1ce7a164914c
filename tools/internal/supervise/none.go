//go:build !unix

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// A Process is a running command.
type Process struct{}

// Main does nothing.
func Main() {}

// Available reports that commands cannot be supervised here.
func Available() bool { return false }

// Start fails.
func Start(*exec.Cmd, *os.File) (*Process, error) { return nil, errors.ErrUnsupported }

// Kill does nothing.
func (*Process) Kill() {}

// Wait fails.
func (*Process) Wait() (status syscall.WaitStatus, err error) { return status, errors.ErrUnsupported }
