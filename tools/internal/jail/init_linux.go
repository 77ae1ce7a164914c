package jail

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// runInit starts the command as the first process of its namespace, and returns its exit status as a shell does: 128
// plus the number of the signal that ended it. It exits when the worker ends, and the kernel then kills the other
// processes of the namespace. It was executed without capabilities, so none of its threads can do more than the command
// can, and access to its memory would gain nothing. It is not dumpable all the same, in case the kernel has a hole.
func runInit(words []string) int {
	endWithWorker()
	if len(words) == 0 {
		return explain(errors.New("called without a command"))
	}
	err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	var pid int
	if err == nil {
		pid, err = syscall.ForkExec(words[0], words, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	}
	if err != nil {
		return explain(fmt.Errorf("start %s: %w", words[0], err))
	}
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return explain(fmt.Errorf("wait for the command: %w", err))
		case got != pid: // an orphan
		case status.Signaled():
			return 128 + int(status.Signal())
		case status.Exited():
			return status.ExitStatus()
		}
	}
}
