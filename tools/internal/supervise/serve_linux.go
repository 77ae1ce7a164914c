package supervise

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// program is this one, also if its file has been replaced.
func program() (string, error) { return "/proc/self/exe", nil }

// adoptOrphans makes this process the parent of its descendants whose own parent ends.
func adoptOrphans() error {
	return os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// killAll kills all that descend from this process, and reports whether any may be left. What they fork meanwhile is
// found next time: the list is read while they come and go, and may miss one whose parent has just ended. But then it
// is this process's child.
func (s *server) killAll() bool {
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended, or be another user's
	}
	return hasChildren()
}

// hasChildren reports whether this process has children, dead ones that were not waited for among them. As long as it
// has descendants, it has.
func hasChildren() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return !errors.Is(err, unix.ECHILD)
}

// descendants are the processes that descend from one, in no order. Those that have ended and were not waited for are
// among them.
func descendants(root int) (found []int) {
	children := map[int][]int{}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what there is
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

// parentOf reads the parent of a process, 0 if it has ended. Its name, in brackets, may have anything in it.
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
