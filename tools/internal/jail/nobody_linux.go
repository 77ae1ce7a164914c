package jail

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// isRoot reports whether this process is root outside of its user namespace, too. That user may write to files of the
// kernel in /proc even without any capability.
func isRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	raw, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(raw))
	return err != nil || len(fields) < 2 || fields[0] == "0" && fields[1] == "0"
}

// Hint returns what may help if no sandbox can be created; "" if nothing is known.
func Hint() string {
	if !isRoot() {
		return ""
	}
	return fmt.Sprintf("; the worker is root, whose commands run as user %d in a sandbox: the workspace must be on a "+
		"file system whose owners can be mapped (idmapped mounts). Or run the worker as a user of its own, who owns "+
		"the workspace",
		Nobody)
}

// mappedTree returns a copy of the mounts at a path in which root's files belong to nobody, and nobody's to root.
func mappedTree(path string) (*os.File, error) {
	owners, err := swapped.get()
	if err != nil {
		return nil, fmt.Errorf("map owners of files: %w", err)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return nil, fmt.Errorf("copy what is mounted: %w", err)
	}
	tree := os.NewFile(uintptr(fd), path)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(owners.Fd())}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		_ = tree.Close()
		return nil, fmt.Errorf("map owners of files: %w", err)
	}
	return tree, nil
}

// ownerMap is a user namespace without processes, for its mapping of owners. It is created once and kept.
type ownerMap struct {
	mu   sync.Mutex
	file *os.File
}

var swapped ownerMap

func (m *ownerMap) get() (*os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil {
		return m.file, nil
	}
	cmd := &exec.Cmd{Path: self, Args: []string{mapName}, Dir: "/", Env: []string{},
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: swap(), GidMappings: swap()}}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m.file, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	_ = hold.Close()
	_ = cmd.Wait() // its status does not matter
	return m.file, err
}

// swap maps root and nobody to each other, and every other id, up to the largest 32-bit signed number, to itself.
func swap() []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: Nobody, Size: 1},
		{ContainerID: 1, HostID: 1, Size: Nobody - 1},
		{ContainerID: Nobody, HostID: 0, Size: 1},
		{ContainerID: Nobody + 1, HostID: Nobody + 1, Size: math.MaxInt32 - Nobody - 1},
	}
}

// reveal creates a mount point for the workspace that user nobody can reach. It covers the first parent directory that
// nobody may not enter; nothing below that directory was visible to nobody anyway.
func reveal(path string) error {
	for i, c := range path[1:] {
		if c != '/' {
			continue
		}
		above := path[:i+1]
		info, err := os.Stat(above)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 != 0 {
			continue
		}
		if err := mount("tmpfs", above, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64k"); err != nil {
			return err
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		return mount("", above, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	return nil
}
