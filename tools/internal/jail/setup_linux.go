package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// unprivileged are the attributes of every existing mount: no file on it can raise privileges or be a device.
const unprivileged = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// setup mounts what the command may see, drops all capabilities and executes the init.
func (s Spec) setup() error {
	if err := s.mounts(); err != nil {
		return err
	}
	if err := unix.Chdir(s.Dir); err != nil {
		return fmt.Errorf("go to %s: %w", s.Dir, err)
	}
	if err := closeInherited(lifeFD + 1); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := filterCalls(); err != nil {
		return err
	}
	if err := unix.Exec(self, append([]string{initName}, s.Words...), os.Environ()); err != nil {
		return fmt.Errorf("become the first process: %w", err)
	}
	return nil
}

// mounts sets up the command's view of the file system. It copies the mounts that stay visible before it covers them.
func (s Spec) mounts() (err error) {
	root := treeFD
	if !s.Mapped {
		if root, err = copyTree(s.Root); err != nil {
			return err
		}
	}
	resolverFD := -1
	if s.Network {
		if resolverFD, err = copyTree(resolver); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	devices, err := copyDevices()
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return restrict(unix.AT_FDCWD, "/", unprivileged|unix.MOUNT_ATTR_RDONLY) },
		mountPrivate,
		func() error { return mountDev(devices) },
		func() error { return attachResolver(resolverFD) },
		func() error { return s.attachRoot(root) },
		s.hide,
		mountProc,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

// restrict adds attributes to the mount at a path, and to all mounts below it. Without a path it is the mount of fd.
func restrict(fd int, path string, attributes uint64) error {
	attr := unix.MountAttr{Attr_set: attributes}
	flags := uint(unix.AT_RECURSIVE)
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if err := unix.MountSetattr(fd, path, flags, &attr); err != nil {
		return fmt.Errorf("restrict the mount %s: %w", path, err)
	}
	return nil
}

// copyTree copies the mount at a path, and the mounts below it.
func copyTree(path string) (fd int, err error) {
	fd, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("copy what is mounted at %s: %w", path, err)
	}
	return fd, nil
}

// attach mounts the copy fd at a path.
func attach(fd int, path string) error {
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", path, err)
	}
	return nil
}

func (s Spec) attachRoot(fd int) error {
	if err := os.MkdirAll(s.Root, 0o755); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err // a mount covers it, and the mount point cannot be created
	}
	if s.Mapped {
		if err := reveal(s.Root); err != nil {
			return fmt.Errorf("make a way to the workspace: %w", err)
		}
	}
	return attachDir(fd, s.Root, unprivileged)
}

// attachDir mounts the copy of a directory. It creates the mount point, which another mount may cover.
func attachDir(fd int, path string, attributes uint64) error {
	if err := restrict(fd, "", attributes); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	return attach(fd, path)
}

// attachResolver makes the resolver's directory visible again. It does nothing if fd is -1.
func attachResolver(fd int) error {
	if fd < 0 {
		return nil
	}
	return attachDir(fd, resolver, unprivileged|unix.MOUNT_ATTR_RDONLY)
}

func mountPrivate() error {
	for _, dir := range private() {
		if err := mountTmp(dir); err != nil {
			return err
		}
	}
	return nil
}

func mountTmp(dir string) error {
	return mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d", tmpBytes))
}

func (s Spec) hide() error {
	dirs, files := s.hidden()
	for _, dir := range dirs {
		if err := mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV,
			"mode=0755,size=4096"); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := mount("/dev/null", file, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// mountProc mounts a /proc that shows only the processes of the sandbox. It is read-only, because a user may write to
// some files there without any capability, and which of them belong to the whole machine depends on the kernel.
func mountProc() error {
	return mount("proc", "/proc", "proc", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}
