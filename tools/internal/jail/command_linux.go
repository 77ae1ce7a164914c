package jail

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program's executable. The path stays valid if the file was replaced or is hidden by a mount.
const self = "/proc/self/exe"

// setupCaps are the capabilities that the setup needs in its namespaces: to mount, and to drop capabilities.
var setupCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}

// Command returns the process of a command in its sandbox, not started yet. It leads its own session, so that it has
// no controlling terminal, and ends with the thread that starts it, or at the latest with this process. The caller
// must call release after starting it, or instead. The error says why there can be no sandbox.
func Command(s Spec) (cmd *exec.Cmd, release func(), err error) {
	if err := Available(); err != nil {
		return nil, nil, err
	}
	procs, err := otherProcs()
	if err != nil {
		return nil, nil, err
	}
	s.Hide = append(s.Hide[:len(s.Hide):len(s.Hide)], procs...)
	s.Parent = os.Getpid()
	pipe, err := life()
	if err != nil {
		return nil, nil, err
	}
	s.Mapped = isRoot()
	spec, err := s.file()
	if err != nil {
		return nil, nil, err
	}
	own := []*os.File{spec}
	release = func() {
		for _, f := range own {
			_ = f.Close() // the started command has a duplicate
		}
	}
	if s.Mapped {
		tree, err := mappedTree(s.Root)
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("give the workspace %s to user %d for the time of a command: %w", s.Root, Nobody, err)
		}
		own = append(own, tree)
	}
	cmd = &exec.Cmd{Path: self, Args: []string{setupName}, Dir: "/", ExtraFiles: append([]*os.File{pipe.reader}, own...),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}}
	if s.Bubblewrap == "" {
		s.namespaces(cmd.SysProcAttr)
		return cmd, release, nil
	}
	cmd.Args = []string{enterName}
	if s.Mapped {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	} else if mountsCanBeKeptOut() {
		keepMountsOut(cmd.SysProcAttr)
	}
	return cmd, release, nil
}

// keepMountsOut makes a process of a user without powers start with mounts of its own. bubblewrap has them from there.
// In those of the machine it would get what the machine mounts while the command runs, which could be written to.
func keepMountsOut(attr *syscall.SysProcAttr) {
	attr.Unshareflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS // which os/exec makes private
	mapSelf(attr, os.Getuid(), os.Getgid())
}

// mountsCanBeKeptOut reports whether the machine lets this program make such namespaces, and not only bubblewrap.
var mountsCanBeKeptOut = sync.OnceValue(func() bool {
	cmd := exec.Cmd{Path: self, Args: []string{mapName}, Dir: "/", Env: []string{}, SysProcAttr: &syscall.SysProcAttr{}}
	keepMountsOut(cmd.SysProcAttr)
	return cmd.Run() == nil
})

// mapSelf maps a user and a group to themselves in a new user namespace, and no others.
func mapSelf(attr *syscall.SysProcAttr, uid, gid int) {
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
}

// file returns the Spec as a file.
func (s Spec) file() (*os.File, error) {
	var raw bytes.Buffer
	if err := gob.NewEncoder(&raw).Encode(s); err != nil { // not JSON: a path need not be UTF-8
		return nil, fmt.Errorf("describe the sandbox: %w", err)
	}
	return memoryFile("sandbox", raw.Bytes(), unix.MFD_CLOEXEC)
}

// namespaces makes a process start in new namespaces, with capabilities in them.
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
		attr.GidMappingsEnableSetgroups = true // so that the process can leave root's groups
	}
	attr.Cloneflags = uintptr(flags)
	mapSelf(attr, uid, gid)
	attr.AmbientCaps = setupCaps
}
