package bash_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errNothing = errors.New("there is nothing to attack")

// noPowers are the lines of a thread's status that say that it has no powers, and gets none.
var noPowers = map[string]string{
	"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
	"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1",
}

// powerless reads the status of a thread. Its error says which power the thread has.
func powerless(status string) error {
	text, err := os.ReadFile(status)
	if err != nil {
		return err
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if want, ok := noPowers[name]; ok {
			if seen++; strings.TrimSpace(value) != want {
				return fmt.Errorf("%s: %s", status, strings.TrimSpace(line))
			}
		}
	}
	if seen != len(noPowers) {
		return fmt.Errorf("%s: %d lines about powers", status, seen)
	}
	return nil
}

// powerAttacks look for a thread in the sandbox that has powers, and for the process that came before it.
func powerAttacks() []attack {
	return []attack{
		{"a thread with powers", func(string) error {
			files, err := filepath.Glob("/proc/[0-9]*/task/*/status")
			if err != nil || len(files) < 2 {
				return nil // a check that sees nothing is none
			}
			for _, file := range files {
				if err := powerless(file); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
					fmt.Printf("note\t%v\n", err)
					return nil
				}
			}
			return fmt.Errorf("none of %d", len(files))
		}},
		{"a terminal", func(string) error {
			tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
			if err == nil {
				_ = tty.Close()
			}
			return err
		}},
		{"the worker's session", func(string) error {
			sid, err := unix.Getsid(0)
			if err == nil && sid > 0 { // 0 is one from outside
				err = fmt.Errorf("it is in session %d", sid)
			}
			return err
		}},
		{"root's files", func(string) error {
			_, err := os.ReadFile("/etc/shadow")
			return err
		}},
	}
}

// victim is at the same address in pid 1, if that is the same program.
var victim = [8]byte{1}

// memoryAttacks change the memory of the sandbox's first process.
func memoryAttacks() []attack {
	address := int64(uintptr(unsafe.Pointer(&victim)))
	return []attack{
		{"memory of pid 1", func(string) error {
			files, _ := filepath.Glob("/proc/1/task/*/mem")
			return anyOf(append(files, "/proc/1/mem"), func(path string) error {
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				defer f.Close()
				_, err = f.WriteAt(victim[:], address)
				return err
			})
		}},
		{"process_vm_writev to pid 1", func(string) error {
			local := []unix.Iovec{{Base: &victim[0], Len: uint64(len(victim))}}
			remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(victim)}}
			_, err := unix.ProcessVMWritev(1, local, remote, 0)
			if errors.Is(err, unix.EFAULT) {
				return nil // only the address was wrong
			}
			return err
		}},
		{"ptrace of pid 1", func(string) error {
			err := unix.PtraceSeize(1)
			return err
		}},
		{"a descriptor of pid 1", func(string) error {
			pidfd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			for fd := 3; fd < 64; fd++ {
				if got, err := unix.PidfdGetfd(pidfd, fd, 0); err == nil && isDirectory(got) {
					return nil
				}
			}
			return errNothing
		}},
	}
}

func isDirectory(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// anyOf succeeds if one of the paths can be attacked.
func anyOf(paths []string, try func(path string) error) error {
	err := errNothing
	for _, path := range paths {
		if err = try(path); err == nil {
			fmt.Printf("note\t%s\n", path)
			return nil
		}
	}
	return err
}

// mountAttacks change what is mounted.
func mountAttacks() []attack {
	return []attack{
		{"remount of /", func(string) error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"remount of /proc", func(string) error { return unix.Mount("", "/proc", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
		{"remount of /etc", func(string) error { return unix.Mount("/etc", "/etc", "", unix.MS_BIND, "") }},
		{"umount of /tmp", func(string) error { return unix.Unmount("/tmp", unix.MNT_DETACH) }},
		{"umount of /run", func(string) error { return unix.Unmount("/run", unix.MNT_DETACH) }},
		{"umount of /proc", func(string) error { return unix.Unmount("/proc", unix.MNT_DETACH) }},
		{"umount of /dev", func(string) error { return unix.Unmount("/dev", unix.MNT_DETACH) }},
		{"umount of what is hidden", func(hidden string) error {
			return unix.Unmount(filepath.Dir(hidden), unix.MNT_DETACH)
		}},
		{"a mount", func(string) error { return unix.Mount("x", "/mnt", "tmpfs", 0, "") }},
		{"a copy of the tree", func(string) error {
			_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
			return err
		}},
		{"another root", func(string) error { return unix.Chroot("/tmp") }},
		{"the mounts of pid 1", func(string) error {
			fd, err := unix.Open("/proc/1/ns/mnt", unix.O_RDONLY, 0)
			if err == nil {
				err = unix.Setns(fd, unix.CLONE_NEWNS)
			}
			return err
		}},
		{"a user namespace", func(string) error {
			cmd := exec.Command("true")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS}
			return cmd.Run()
		}},
	}
}
