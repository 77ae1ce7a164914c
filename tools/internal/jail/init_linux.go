package jail

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// beInit starts the command, as the first process of its namespace, and returns its status, as a shell would: 128 and
// the number of the signal that ended it. It ends with the worker, and takes the rest with it when it ends. It can do
// nothing that the command cannot, in none of its threads, since it was executed without powers: so nothing is won with
// its memory. That cannot be read or written nevertheless, in case a kernel has a hole.
func beInit(words []string) int {
	endWithWorker()
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
