package jail

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// enter executes bubblewrap. Before, it does what bubblewrap does not do: it keeps the worker's descriptors and keys
// from the command, and if the worker is root it changes the user. bubblewrap then executes the init as the first
// process of the sandbox. bubblewrap's own first process can be traced by the command, which could so have it forget to
// end with the call.
func (s Spec) enter() error {
	if s.Mapped {
		if err := reveal(s.Root); err != nil {
			return fmt.Errorf("make a way to the workspace: %w", err)
		}
		if err := attach(treeFD, s.Root); err != nil {
			return err
		}
	}
	if err := closeInherited(lifeFD + 1); err != nil {
		return err
	}
	if s.Mapped {
		if err := becomeNobody(); err != nil {
			return err
		}
	}
	// A change of the user clears the signal that is sent when the parent ends.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the worker: %w", err)
	}
	if os.Getppid() != s.Parent {
		return fmt.Errorf("the worker %d has ended", s.Parent)
	}
	if err := keepSelf(); err != nil {
		return err
	}
	filter, err := filterFile()
	if err != nil {
		return err
	}
	defer func() { _ = filter.Close() }()
	args, err := memoryFile("arguments", []byte(strings.Join(s.bubblewrapArgs(), "\x00")+"\x00"), 0)
	if err != nil {
		return err
	}
	defer func() { _ = args.Close() }()
	words := append([]string{s.Bubblewrap, "--seccomp", fmt.Sprint(filter.Fd()), "--args", fmt.Sprint(args.Fd()), "--",
		selfPath, initName}, s.Words...)
	if err := unix.Exec(s.Bubblewrap, words, os.Environ()); err != nil {
		return fmt.Errorf("start %s: %w", s.Bubblewrap, err)
	}
	return nil
}

// keepSelf opens this program as selfFD, which bubblewrap inherits: in the sandbox the program may have no path. It
// must be called before other descriptors are opened that bubblewrap inherits: one of them could be selfFD.
func keepSelf() error {
	fd, err := unix.Open(self, unix.O_PATH, 0)
	if err == nil && fd != selfFD {
		err = errors.Join(unix.Dup3(fd, selfFD, 0), unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("keep the program for the first process of the sandbox: %w", err)
	}
	return nil
}

func becomeNobody() error {
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("leave root's groups: %w", err)
	}
	if err := syscall.Setgid(Nobody); err != nil {
		return fmt.Errorf("become group %d: %w", Nobody, err)
	}
	if err := syscall.Setuid(Nobody); err != nil {
		return fmt.Errorf("become user %d: %w", Nobody, err)
	}
	return nil
}

// bubblewrapArgs returns bubblewrap's arguments before the command. Later mounts cover earlier ones.
func (s Spec) bubblewrapArgs() []string {
	args := []string{"--die-with-parent", "--as-pid-1", "--new-session", "--unshare-user-try", "--unshare-pid",
		"--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", "--ro-bind", "/", "/",
		"--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"}
	for _, dir := range append(private(), shm) {
		args = append(args, "--perms", "1777", "--size", strconv.Itoa(tmpBytes), "--tmpfs", dir)
	}
	args = append(args, "--remount-ro", "/dev") // what is mounted below it, such as shm, can still be written
	if !s.Network {
		args = append(args, "--unshare-net")
	}
	if s.Network {
		args = append(args, "--ro-bind-try", resolver, resolver)
	}
	args = append(args, "--bind", s.Root, s.Root)
	dirs, files := s.hidden()
	for _, d := range dirs {
		args = append(args, "--tmpfs", d, "--remount-ro", d)
	}
	for _, f := range files {
		args = append(args, "--ro-bind-try", "/dev/null", f)
	}
	return append(args, "--chdir", s.Dir)
}
