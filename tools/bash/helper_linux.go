package bash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// help makes the sandbox around itself, runs the command in it and returns its status, as a shell would: 128 and the number of
// the signal that ended it. As the first process of its namespace it takes the rest with it when it ends.
func help(raw string) int {
	runtime.LockOSThread() // powers belong to a thread, and the command is started by the one that has given them up
	var spec helperSpec
	err := json.Unmarshal([]byte(raw), &spec)
	if err == nil {
		err = spec.confine()
	}
	var pid int
	if err == nil {
		pid, err = syscall.ForkExec(spec.Words[0], spec.Words, &syscall.ProcAttr{Dir: spec.Dir, Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		return limitFailed
	}
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "sandbox: wait for the command:", err)
			return limitFailed
		case got != pid: // an orphan
		case status.Signaled():
			return 128 + int(status.Signal())
		case status.Exited():
			return status.ExitStatus()
		}
	}
}

// confine mounts what the command is to see, and gives all powers up.
func (s helperSpec) confine() error {
	root, err := unix.Open(s.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // it may come to lie under a mount
	if err != nil {
		return fmt.Errorf("open %s: %w", s.Root, err)
	}
	keep, _ := unix.Open(s.Keep, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // not on all machines
	for _, step := range []func() error{
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return setReadOnly("/", true) },
		func() error { return s.ownDirs() },
		func() error { return bindBack(keep, s.Keep, true) },
		func() error { return bindBack(root, s.Root, false) },
		func() error { return s.hide() },
		func() error { return mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") },
		dropPowers,
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

// setReadOnly changes a mount and all below it.
func setReadOnly(path string, readOnly bool) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if !readOnly {
		attr = unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make %s read-only (%t): %w", path, readOnly, err)
	}
	return nil
}

func (s helperSpec) ownDirs() error {
	for _, dir := range s.Own {
		if err := mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d", tmpBytes)); err != nil {
			return err
		}
	}
	return nil
}

// bindBack puts a directory that is open where it was, over what lies there now.
func bindBack(fd int, path string, readOnly bool) error {
	if fd < 0 {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if err := mount(fmt.Sprintf("/proc/self/fd/%d", fd), path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return setReadOnly(path, readOnly)
}

func (s helperSpec) hide() error {
	for _, dir := range s.HideDir {
		if err := mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4096"); err != nil {
			return err
		}
	}
	for _, file := range s.Hide {
		if _, err := os.Lstat(filepath.Clean(file)); err != nil {
			continue // it lies under another mount
		}
		if err := mount("/dev/null", file, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// dropPowers gives up what root has, now and in programs to come.
func dropPowers() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) { // a kernel may know fewer
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
