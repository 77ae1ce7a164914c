package jail

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program, also if its file has been replaced or cannot be reached any more.
const self = "/proc/self/exe"

// setupCaps are what the setup needs in its namespaces: to mount, and to give its powers up.
var setupCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}

// Command returns the process of a command in its sandbox, which is not started yet. It leads a session of its own, so
// that no terminal is its, and ends with the thread that starts it, or at the latest with this process. After the
// start, or instead of it, the caller calls release. The error says why there can be no sandbox here.
func Command(s Spec) (cmd *exec.Cmd, release func(), err error) {
	if err := Available(); err != nil {
		return nil, nil, err
	}
	strangers, err := otherProcs()
	if err != nil {
		return nil, nil, err
	}
	s.Hide = append(s.Hide[:len(s.Hide):len(s.Hide)], strangers...)
	s.Parent = os.Getpid()
	if s.Bubblewrap {
		if s.Program, err = exec.LookPath(Bubblewrap); err != nil {
			return nil, nil, err
		}
	}
	pipe, err := life()
	if err != nil {
		return nil, nil, err
	}
	cmd = &exec.Cmd{Path: self, Dir: "/", ExtraFiles: []*os.File{pipe.reader},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
	release = func() {}
	if s.Mapped = isRoot(); s.Mapped {
		tree, err := mappedTree(s.Root)
		if err != nil {
			return nil, nil, fmt.Errorf("give the workspace %s to user %d for the time of a command: %w", s.Root, Nobody, err)
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, tree)
		release = func() { _ = tree.Close() } // the command has its own
	}
	raw, err := json.Marshal(s)
	if err != nil {
		release()
		return nil, nil, fmt.Errorf("describe the sandbox: %w", err)
	}
	if s.Bubblewrap {
		cmd.Args = []string{enterName, string(raw)}
		if s.Mapped {
			cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
		}
	} else {
		cmd.Args = []string{setupName, string(raw)}
		s.namespaces(cmd.SysProcAttr)
	}
	return cmd, release, nil
}

// namespaces has a process start in namespaces of its own, with powers in them.
func (s Spec) namespaces(attr *syscall.SysProcAttr) {
	flags := syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC |
		syscall.CLONE_NEWUTS
	if !s.Network {
		flags |= syscall.CLONE_NEWNET
	}
	uid, gid := os.Getuid(), os.Getgid()
	if s.Mapped {
		uid, gid = Nobody, Nobody
		attr.Credential = &syscall.Credential{Uid: Nobody, Gid: Nobody}
		attr.GidMappingsEnableSetgroups = true // to have none of root's
	}
	attr.Cloneflags = uintptr(flags)
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	attr.AmbientCaps = setupCaps
}
