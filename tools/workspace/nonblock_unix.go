//go:build unix

package workspace

import "syscall"

// nonblock keeps the opening of a named pipe from waiting for the other end, perhaps forever.
const nonblock = syscall.O_NONBLOCK
