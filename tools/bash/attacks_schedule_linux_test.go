package bash_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

// onThreadsOfInit makes a system call that changes the scheduling of a thread, for each thread of pid 1.
func onThreadsOfInit(call uintptr, before []uintptr, after ...uintptr) error {
	threads, _ := filepath.Glob("/proc/1/task/*")
	return anyOf(append(threads, "1"), func(path string) error {
		id, err := strconv.ParseUint(filepath.Base(path), 10, 32)
		if err != nil {
			return err
		}
		args := append(append(append([]uintptr{}, before...), uintptr(id)), append(after, 0, 0, 0)...)
		if _, _, errno := unix.Syscall(call, args[0], args[1], args[2]); errno != 0 {
			return errno
		}
		return nil
	})
}

// scheduleAttacks keep pid 1 from getting processor time, without which it cannot end the sandbox.
func scheduleAttacks() []attack {
	const idle, whoProcess, lowest = 5, 1, 3 << 13 // SCHED_IDLE, IOPRIO_WHO_PROCESS, IOPRIO_CLASS_IDLE
	var priority int32
	one := uint64(1)
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: idle}
	set := func(which int) func(string) error {
		return func(string) error { return unix.Setpriority(which, 0, 19) }
	}
	return []attack{
		{"the policy of pid 1", func(string) error {
			return onThreadsOfInit(unix.SYS_SCHED_SETSCHEDULER, nil, idle, uintptr(unsafe.Pointer(&priority)))
		}},
		{"the attributes of pid 1", func(string) error {
			return onThreadsOfInit(unix.SYS_SCHED_SETATTR, nil, uintptr(unsafe.Pointer(&attr)))
		}},
		{"the parameters of pid 1", func(string) error {
			return onThreadsOfInit(unix.SYS_SCHED_SETPARAM, nil, uintptr(unsafe.Pointer(&priority)))
		}},
		{"the processor of pid 1", func(string) error {
			return onThreadsOfInit(unix.SYS_SCHED_SETAFFINITY, nil, unsafe.Sizeof(one), uintptr(unsafe.Pointer(&one)))
		}},
		{"the priority of pid 1", func(string) error {
			return onThreadsOfInit(unix.SYS_SETPRIORITY, []uintptr{unix.PRIO_PROCESS}, 19)
		}},
		{"the priority of all processes", set(unix.PRIO_USER)},
		{"the priority of the group", set(unix.PRIO_PGRP)},
		{"the disk priority of pid 1", func(string) error {
			return onThreadsOfInit(unix.SYS_IOPRIO_SET, []uintptr{whoProcess}, lowest)
		}},
	}
}

// exitAttacks stop a process at its exit: two that trace each other so cannot be ended.
func exitAttacks() []attack {
	return []attack{{"a stop at an exit", func(string) error {
		runtime.LockOSThread() // the tracer is a thread
		defer runtime.UnlockOSThread()
		traced := exec.Command("sleep", "10")
		if err := traced.Start(); err != nil {
			return err
		}
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(traced.Process.Pid), 0,
			unix.PTRACE_O_TRACEEXIT, 0, 0)
		if errno == 0 {
			return nil // the end of this process detaches it
		}
		return errors.Join(errno, traced.Process.Kill())
	}}}
}

// leaseAttacks keep others from opening a file. The kernel would grant this lease: the file is the command's own.
func leaseAttacks() []attack {
	return []attack{{"a lease of a file", func(string) error {
		f, err := os.CreateTemp(".", "leased")
		if err != nil {
			return nil // the lease was not refused
		}
		defer os.Remove(f.Name())
		defer f.Close()
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		return err
	}}}
}

// A command may still lower its own priority, and choose its processors.
func TestSandboxLeavesOwnScheduling(t *testing.T) {
	t.Parallel()
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, _ *tooltest.Rig) {
		got, isError := run(t, tool, "nice -n 5 chrt --idle 0 ionice -c 3 taskset 1 echo done")
		if isError || got != "done\n" {
			t.Errorf("%v %s", isError, got)
		}
	})
}
