package jail

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// assembled returns the filter for this machine.
func assembled() ([]unix.SockFilter, error) {
	list, ok := arches[runtime.GOARCH]
	if !ok {
		return nil, fmt.Errorf("the system calls of %s are not known", runtime.GOARCH)
	}
	raw, err := bpf.Assemble(filterFor(list))
	if err != nil {
		return nil, fmt.Errorf("assemble the filter of system calls: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return filter, nil
}

// filterCalls installs the filter for this thread and the programs that it executes. The thread must have
// no_new_privs set, see dropCapabilities.
func filterCalls() error {
	filter, err := assembled()
	if err != nil {
		return err
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
		uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	return nil
}

// filterFile returns a file with the filter. It stays open in a program that this one executes.
func filterFile() (*os.File, error) {
	filter, err := assembled()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, filter); err != nil {
		return nil, fmt.Errorf("write the filter of system calls: %w", err)
	}
	return memoryFile("filter", b.Bytes(), 0)
}
