package jail

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// argv[0] selects the role of this process.
const (
	setupName = "loopbus-sandbox-setup"
	initName  = "loopbus-sandbox-init"
	enterName = "loopbus-sandbox-enter"
	mapName   = "loopbus-sandbox-map"
)

// Descriptors of the roles.
const (
	lifeFD = 3 // every role: the pipe that closes when the worker ends
	specFD = 4 // setup and enter: the Spec
	treeFD = 5 // setup and enter: the mount with mapped owners
	selfFD = 4 // init below bubblewrap: this program
)

// selfPath is argv[0] of the init below bubblewrap, which executes a program by its path.
const selfPath = "/proc/self/fd/4"

// ready reports whether main has called [Main]. Without that call a process that is started in a role would run as an
// ordinary program.
var ready atomic.Bool

// Main must be called first in main. In a process that was started in one of the roles it does not return. It does
// not use os.Exit, which waits for a second with the race detector: nothing is left to do, and the environment, where
// GORACE would change that, is the command's.
func Main() {
	ready.Store(true)
	switch os.Args[0] {
	case setupName:
		syscall.Exit(explain(runRole(Spec.setup)))
	case enterName:
		syscall.Exit(explain(runRole(Spec.enter)))
	case initName:
		syscall.Exit(runInit(os.Args[1:]))
	case selfPath:
		if len(os.Args) > 1 && os.Args[1] == initName {
			_ = unix.Close(selfFD) // it is open: this process was executed from it
			syscall.Exit(runInit(os.Args[2:]))
		}
	case mapName:
		_, _ = io.Copy(io.Discard, os.Stdin) // keeps its user namespace alive until the worker has opened it
		syscall.Exit(0)
	}
}

// Available returns an error if this program cannot create sandboxes.
func Available() error {
	if !ready.Load() {
		return errors.New("the program has to call bash.RunHelper at the beginning of its main")
	}
	return nil
}

// runRole reads the Spec and carries out a role. The role ends with the execution of another program, so runRole
// returns errors only. It locks the thread, because capabilities belong to a thread and the executed program inherits
// this one's.
func runRole(do func(Spec) error) error {
	runtime.LockOSThread()
	file := os.NewFile(specFD, "sandbox")
	var spec Spec
	if err := gob.NewDecoder(file).Decode(&spec); err != nil {
		return fmt.Errorf("read what is to be confined: %w", err)
	}
	_ = file.Close() // it was only read
	return do(spec)
}

func explain(err error) int {
	fmt.Fprintln(os.Stderr, "sandbox:", err)
	return failed
}
