package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// awaitStopped waits until SIGSTOP has reached every thread of a process, or the process has ended.
func awaitStopped(pid int, done <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !stopped(pid) {
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

// stopped reads the state of each thread, which follows the name in parentheses.
func stopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		name := bytes.LastIndexByte(stat, ')')
		if err != nil || name < 0 || !bytes.HasPrefix(stat[name+1:], []byte(" T")) {
			return false
		}
	}
	return len(threads) > 0
}
