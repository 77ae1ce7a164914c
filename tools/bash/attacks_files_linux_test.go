package bash_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileAttacks open what belongs to the machine.
func fileAttacks() []attack {
	return []attack{
		{"a setting of the kernel", func(string) error {
			return writable("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs")
		}},
		{"a file of /proc", func(string) error {
			files, _ := filepath.Glob("/proc/[a-z]*")
			return anyOf(files, openForWriting)
		}},
		{"a file of /sys", func(string) error { return writable("/sys") }},
		{"a device of the machine", func(string) error { return strangeDevice() }},
		{"a device in the workspace", func(string) error {
			f, err := os.Open("device")
			if err == nil {
				_ = f.Close()
			}
			return err
		}},
		{"a program with its owner's rights", givesRights},
		{"what is hidden", func(hidden string) error { return readTreasure(hidden) }},
		{"a hidden file", func(string) error { return readTreasure("hidden/key") }},
		{"what is hidden, around the mounts", aroundTheMounts},
		{"a file that the worker has open", func(string) error {
			for fd := 3; fd < 256; fd++ {
				buf := make([]byte, len(treasure))
				if n, _ := unix.Pread(fd, buf, 0); string(buf[:max(n, 0)]) == treasure {
					return nil
				}
			}
			return errNothing
		}},
	}
}

// givesRights makes a file that whoever executes it outside gets the rights of the worker's user from.
func givesRights(string) error {
	if err := os.WriteFile("gives", nil, 0o755); err != nil {
		return err
	}
	ways := map[string]func() error{
		"fchmodat": func() error { return unix.Fchmodat(unix.AT_FDCWD, "gives", 0o4755, 0) },
		"chmod":    func() error { return unix.Chmod("gives", 0o2755) },
		"mknod":    func() error { return unix.Mknod("gives1", unix.S_IFREG|0o4755, 0) },
		"open": func() error {
			_, err := unix.Open("gives2", unix.O_CREAT|unix.O_WRONLY, 0o4755)
			return err
		},
		"openat2": func() error {
			_, err := unix.Openat2(unix.AT_FDCWD, "gives3", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o4755})
			return err
		},
		"io_uring": func() error {
			var parameters [120]byte
			_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&parameters[0])), 0)
			if errno != 0 {
				return errno
			}
			return nil
		},
	}
	var err error
	for name, try := range ways {
		if err = try(); err == nil {
			fmt.Printf("note\t%s\n", name)
			return nil
		}
	}
	return err
}

func readTreasure(path string) error {
	data, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(data, []byte(treasure)) {
		err = errNothing
	}
	return err
}

// aroundTheMounts reads the hidden file by way of every directory that a process has open or stands in.
func aroundTheMounts(hidden string) error {
	var ways []string
	for _, pattern := range []string{"cwd", "root", "fd/*", "task/*/fd/*", "task/*/cwd", "task/*/root"} {
		found, _ := filepath.Glob("/proc/[0-9]*/" + pattern)
		ways = append(ways, found...)
	}
	for _, way := range ways {
		for parts := strings.Split(hidden, "/"); len(parts) > 0; parts = parts[1:] {
			if readTreasure(way+"/"+strings.Join(parts, "/")) == nil {
				fmt.Printf("note\t%s\n", way)
				return nil
			}
		}
	}
	return fmt.Errorf("by none of %d ways", len(ways))
}

func openForWriting(path string) error {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return errNothing
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_ = f.Close()
	}
	return err
}

// writable looks for a file below that can be opened for writing, among the first twenty thousand of each.
func writable(roots ...string) error {
	for _, root := range roots {
		n := 0
		var found error
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if n++; n > 20_000 {
				return fs.SkipAll
			}
			if err == nil && e.Type().IsRegular() && unix.Access(path, unix.W_OK) == nil {
				fmt.Printf("note\t%s\n", path)
				found = fs.SkipAll
			}
			return found
		})
		if found != nil {
			return nil
		}
	}
	return errNothing
}

// strangeDevice looks for a device that no command needs.
func strangeDevice() error {
	usual := map[uint64]bool{}
	for _, minor := range []uint32{3, 5, 7, 8, 9} { // null, zero, full, random, urandom
		usual[unix.Mkdev(1, minor)] = true
	}
	usual[unix.Mkdev(5, 0)], usual[unix.Mkdev(5, 2)] = true, true // tty, ptmx
	err := errNothing
	_ = filepath.WalkDir("/dev", func(path string, e fs.DirEntry, walkErr error) error {
		var st unix.Stat_t
		if walkErr != nil || e.Type()&fs.ModeDevice == 0 || unix.Stat(path, &st) != nil || usual[st.Rdev] {
			return nil
		}
		fmt.Printf("note\t%s\n", path)
		err = nil
		return fs.SkipAll
	})
	return err
}

// otherAttacks reach for what is not in the file system.
func otherAttacks() []attack {
	return []attack{
		{"an abstract socket", func(string) error {
			conn, err := net.Dial("unix", os.Getenv(abstractEnv))
			if err == nil {
				_ = conn.Close()
			}
			return err
		}},
		{"the host of the machine", func(string) error {
			_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
			return err
		}},
		{"a key of the worker's session", func(string) error {
			_, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", treasure, 0)
			return err
		}},
		{"a key of the worker's user", func(string) error {
			number, name, _ := strings.Cut(os.Getenv(keyringEnv), " ")
			id, err := strconv.Atoi(number)
			if err != nil {
				return errNothing
			}
			if _, err := unix.KeyctlInt(unix.KEYCTL_LINK, id, unix.KEY_SPEC_SESSION_KEYRING, 0, 0); err != nil {
				return err
			}
			_, err = unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", name, 0)
			return err
		}},
	}
}
