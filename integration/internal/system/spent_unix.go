//go:build unix

package system

import (
	"syscall"
	"time"
)

// Spent returns the processor time that this process has used, user and system.
func Spent() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
