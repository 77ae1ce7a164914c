package bash

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Limits are kernel limits of each process of a command; zero sets no limit. Processes that a command starts inherit
// them, and only root can raise them, which root in a sandbox cannot. All apply per process, except Processes, which
// applies to the user.
type Limits struct {
	Memory    int64         // bytes of address space
	CPU       time.Duration // of processor time, in whole seconds
	Processes int64         // of the worker's user, threads included
	FileSize  int64         // bytes of a file that is written
}

// limitFailed is the exit status of a command whose limits could not be set.
const limitFailed = 126

func (l Limits) none() bool { return l == Limits{} }

// check returns an error for limits that are invalid, or that the system or the shell would not enforce.
func (l Limits) check(shell string, uid int) error {
	if l.none() {
		return nil
	}
	var errs []error
	if filepath.Base(shell) != "bash" {
		errs = append(errs, fmt.Errorf("limits need bash, and there is only %s", shell))
	}
	if l.Memory < 0 || l.CPU < 0 || l.Processes < 0 || l.FileSize < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	if l.CPU%time.Second != 0 {
		errs = append(errs, fmt.Errorf("the limit of processor time is in whole seconds, and not %s", l.CPU))
	}
	if l.Processes > 0 && uid == 0 {
		errs = append(errs, errors.New("root has as many processes as it likes: run the worker as a user of its own to "+
			"limit them"))
	}
	return errors.Join(errs...)
}

// preamble returns the script that sets the limits and then executes the shell that runs the command. A process that
// has used up its processor time gets a signal at the soft limit, and is killed a second later.
func (l Limits) preamble() string {
	var set []string
	limit := func(n int64, format string, args ...any) {
		if n > 0 {
			set = append(set, fmt.Sprintf(format, args...))
		}
	}
	limit(l.Memory, "ulimit -v %d", max(l.Memory>>10, 1))
	limit(int64(l.CPU), "ulimit -St %d && ulimit -Ht %d", l.CPU/time.Second, l.CPU/time.Second+1)
	limit(l.Processes, "ulimit -u %d", l.Processes)
	limit(l.FileSize, "ulimit -f %d", max(l.FileSize>>10, 1))
	return strings.Join(set, " && ") + fmt.Sprintf(` || exit %d; exec "$0" -c "$1"`, limitFailed)
}

// words returns the arguments of the shell for a command.
func (l Limits) words(shell, command string) []string {
	if l.none() {
		return []string{shell, "-c", command}
	}
	return []string{shell, "-c", l.preamble(), shell, command}
}
