package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// AdoptOrphans makes this process the parent of all that tests start and whose own parent ends, so that [Left] finds
// it: also what has left its session and its process group, and what has no variables of ours. It belongs before the
// tests.
func AdoptOrphans() error {
	return os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// Left waits for everything to end that descends from this process. It kills and returns what has not ended within
// grace.
func Left(grace time.Duration) (left []string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(grace)
	for {
		running := descendants(os.Getpid())
		if len(running) == 0 {
			return nil
		}
		select {
		case <-tick.C:
			continue
		case <-end:
		}
		for _, p := range running {
			left = append(left, fmt.Sprintf("%d %s", p.pid, p.words()))
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended just now
		}
		return left
	}
}

// entry is a process as the kernel lists it.
type entry struct {
	pid, parent int
	state       byte
}

// words are its command line.
func (e entry) words() string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", e.pid)) // it may be gone
	return strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
}

// descendants are the processes that run and descend from one.
func descendants(root int) (running []entry) {
	children := map[int][]entry{}
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, name := range names {
		if e, ok := entryOf(name.Name()); ok {
			children[e.parent] = append(children[e.parent], e)
		}
	}
	for next := children[root]; len(next) > 0; next = next[1:] {
		if e := next[0]; e.state != 'Z' && e.state != 'X' {
			running = append(running, e)
		}
		next = append(next, children[next[0].pid]...)
	}
	return running
}

func entryOf(name string) (e entry, ok bool) {
	var err error
	if e.pid, err = strconv.Atoi(name); err != nil {
		return e, false
	}
	stat, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return e, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // its name may have anything in it
	if len(fields) < 2 {
		return e, false
	}
	e.state = fields[0][0]
	e.parent, err = strconv.Atoi(string(fields[1]))
	return e, err == nil
}
