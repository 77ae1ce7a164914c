package bash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// helperName is how the helper is called as a program. It is this program: nothing else has to be installed.
const helperName = "loopbus-bash-helper"

// helperReady says that main has given the helper its turn, so that a process which is started as one becomes one.
var helperReady atomic.Bool

// RunHelper is what main begins with in a program that runs commands with [SandboxNamespaces]. In the process that makes the
// sandbox it does not return; anywhere else it does nothing.
func RunHelper() {
	helperReady.Store(true)
	if len(os.Args) == 2 && os.Args[0] == helperName {
		os.Exit(help(os.Args[1]))
	}
}

// helperSpec is what the helper is told.
type helperSpec struct {
	Words   []string `json:"words"` // the command
	Dir     string   `json:"dir"`
	Root    string   `json:"root"` // the workspace
	Own     []string `json:"own"`  // directories that are the command's own
	Keep    string   `json:"keep,omitempty"`
	HideDir []string `json:"hideDir,omitempty"`
	Hide    []string `json:"hide,omitempty"` // files
}

// setupCaps are what the helper needs in its namespaces: to mount, and to give its powers up.
var setupCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}

func checkNamespaces() error {
	if !helperReady.Load() {
		return errors.New("the program has to call bash.RunHelper at the beginning of its main")
	}
	return nil
}

// namespaced starts this program as the helper, first process of namespaces of its own.
func (s shell) namespaced(words []string, dir string) (*exec.Cmd, error) {
	spec := helperSpec{Words: words, Dir: dir, Root: s.opts.Workspace.Root(), Own: there(ownDirs)}
	spec.HideDir, spec.Hide = s.hidden()
	flags := syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	if s.opts.SandboxNetwork {
		spec.Keep = resolver
	} else {
		flags |= syscall.CLONE_NEWNET
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("describe the sandbox: %w", err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	return &exec.Cmd{Path: "/proc/self/exe", Args: []string{helperName, string(raw)}, SysProcAttr: &syscall.SysProcAttr{
		Cloneflags:  uintptr(flags),
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: setupCaps,
		Pdeathsig:   syscall.SIGKILL,
	}}, nil
}
