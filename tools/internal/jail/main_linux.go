package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
)

// The name that this program is called by selects its part.
const (
	setupName = "loopbus-sandbox-setup"
	initName  = "loopbus-sandbox-init"
	enterName = "loopbus-sandbox-enter"
	mapName   = "loopbus-sandbox-map"
)

// ready says that main has given the parts their turn, so that a process which is started as one becomes one.
var ready atomic.Bool

// Main is for the beginning of main. In a process that is started as a part of a sandbox it does not return.
func Main() {
	ready.Store(true)
	switch os.Args[0] {
	case setupName:
		os.Exit(explain(asPart(Spec.setup)))
	case enterName:
		os.Exit(explain(asPart(Spec.enter)))
	case initName:
		os.Exit(beInit(os.Args[1:]))
	case mapName:
		_, _ = io.Copy(io.Discard, os.Stdin) // lends its user namespace until it is let go
		os.Exit(0)
	}
}

// Available returns an error if sandboxes cannot be made by this program.
func Available() error {
	if !ready.Load() {
		return errors.New("the program has to call bash.RunHelper at the beginning of its main")
	}
	return nil
}

// asPart does what a part is there for, which ends with another program in its place. Powers belong to a thread, and it
// is this one whose are left to that program.
func asPart(do func(Spec) error) error {
	runtime.LockOSThread()
	if len(os.Args) != 2 {
		return fmt.Errorf("called with %d arguments, for one", len(os.Args)-1)
	}
	var spec Spec
	if err := json.Unmarshal([]byte(os.Args[1]), &spec); err != nil {
		return fmt.Errorf("read what is to be confined: %w", err)
	}
	return do(spec)
}

func explain(err error) int {
	fmt.Fprintln(os.Stderr, "sandbox:", err)
	return failed
}
