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

// AdoptOrphans makes this process the parent of all descendants whose own parent ends, so that [Left] finds them: also
// those that have left their session and process group, or have a different environment. Call it before the tests.
func AdoptOrphans() error {
	return os.NewSyscallError("prctl PR_SET_CHILD_SUBREAPER", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// Left waits until all descendants of this process have ended. It kills and returns those that have not ended within
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
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended in the meantime
		}
		return left
	}
}

// entry is a process as the kernel lists it.
type entry struct {
	pid, parent int
	state       byte
}

// words returns the command line of the process.
func (e entry) words() string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", e.pid)) // the process may have ended
	return strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
}

// descendants returns the running descendants of a process.
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
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // the name may contain any characters
	if len(fields) < 2 {
		return e, false
	}
	e.state = fields[0][0]
	e.parent, err = strconv.Atoi(string(fields[1]))
	return e, err == nil
}
