package supervise

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// program returns a path of this program's executable that stays valid after its file was replaced.
func program() (string, error) { return "/proc/self/exe", nil }

// adoptOrphans makes this process the parent of descendants whose own parent ends.
func adoptOrphans() error {
	return os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// killAll kills the descendants of this process and reports whether any may be left. The next call finds processes that
// they fork in the meantime. The list is read while processes start and end, so it may miss one whose parent has just
// ended; such a process is then a child of this one, and hasChildren reports it.
func (s *server) killAll() bool {
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended, or be another user's
	}
	return hasChildren()
}

// hasChildren reports whether this process has children, including zombies. While it has descendants, it has children:
// it adopts orphans.
func hasChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !errors.Is(err, unix.ECHILD)
}

// descendants returns the process ids of all descendants of root, including zombies, in no particular order.
func descendants(root int) (found []int) {
	children := map[int][]int{}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // after an error, the names read so far
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			parent := parentOf(name)
			children[parent] = append(children[parent], pid)
		}
	}
	for next := children[root]; len(next) > 0; next = next[1:] {
		found = append(found, next[0])
		next = append(next, children[next[0]]...)
	}
	return found
}

// parentOf returns the parent of a process, 0 if the process has ended. The fields after the last bracket are parsed,
// because the program's name, in brackets, may contain any character.
func parentOf(pid string) int {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0
	}
	return parent
}
