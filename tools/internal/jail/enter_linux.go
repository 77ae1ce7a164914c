package jail

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// treeFD is the descriptor of the mount with mapped owners, in the roles setup and enter.
const treeFD = 4

// enter executes bubblewrap. Before, it does what bubblewrap does not do: it keeps the worker's descriptors and keys
// from the command, and if the worker is root it changes the user.
func (s Spec) enter() error {
	if s.Mapped {
		if err := reveal(s.Root); err != nil {
			return fmt.Errorf("make a way to the workspace: %w", err)
		}
		if err := attach(treeFD, s.Root); err != nil {
			return err
		}
	}
	if err := closeInherited(lifeFD); err != nil {
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
	filter, err := filterPipe()
	if err != nil {
		return err
	}
	words := slices.Concat([]string{s.Program, "--seccomp", strconv.Itoa(filter)}, s.bubblewrapArgs(), s.Words)
	if err := unix.Exec(s.Program, words, os.Environ()); err != nil {
		return fmt.Errorf("start %s: %w", s.Program, err)
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
	args := []string{"--die-with-parent", "--new-session", "--unshare-user-try", "--unshare-pid", "--unshare-ipc",
		"--unshare-uts",
		"--unshare-cgroup-try", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev",
		"--proc", "/proc", "--remount-ro", "/proc"}
	if !s.Network {
		args = append(args, "--unshare-net")
	}
	for _, dir := range private() {
		args = append(args, "--perms", "1777", "--size", strconv.Itoa(tmpBytes), "--tmpfs", dir)
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
	return append(args, "--chdir", s.Dir, "--")
}
