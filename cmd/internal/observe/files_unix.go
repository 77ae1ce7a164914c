//go:build unix

package observe

import (
	"math"
	"syscall"
)

// maxFiles returns how many files the process may open.
func maxFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return uint64(limit.Cur) // a signed number on some systems
}
