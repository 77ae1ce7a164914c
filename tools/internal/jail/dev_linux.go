package jail

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// devices are the machine's devices that a command has in its /dev.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// links are the symbolic links in /dev.
var links = map[string]string{
	"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	"ptmx": "pts/ptmx",
}

// copyDevices copies the mounts of the devices, in the order of devices. It must be called before mountDev covers /dev.
func copyDevices() ([]int, error) {
	copies := make([]int, len(devices))
	for i, name := range devices {
		fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("copy /dev/%s: %w", name, err)
		}
		copies[i] = fd
	}
	return copies, nil
}

// mountDev mounts a minimal /dev with its own terminals and shared memory.
func mountDev(copies []int) error {
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := mount("tmpfs", "/dev", "tmpfs", flags|unix.MS_NODEV, "mode=0755,size=64k"); err != nil {
		return err
	}
	for i, name := range devices {
		if err := os.WriteFile("/dev/"+name, nil, 0o644); err != nil {
			return err
		}
		if err := attach(copies[i], "/dev/"+name); err != nil {
			return err
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/dev/pts", shm} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := mount("devpts", "/dev/pts", "devpts", flags, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return err
	}
	if err := mountTmp(shm); err != nil {
		return err
	}
	// This makes /dev itself read-only, but not the mounts below it.
	return mount("", "/dev", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NODEV|flags, "")
}
