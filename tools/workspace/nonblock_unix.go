//go:build unix

package workspace

import "syscall"

// nonblock has the opening of a named pipe not wait for its other end, perhaps for ever.
const nonblock = syscall.O_NONBLOCK
