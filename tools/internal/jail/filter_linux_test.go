package jail

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// The call numbers of this machine are those of package unix.
func TestSystemCallNumbers(t *testing.T) {
	t.Parallel()
	list, ok := arches[runtime.GOARCH]
	if !ok {
		t.Skipf("there is no sandbox on %s", runtime.GOARCH)
	}
	a := list[0]
	want := []uint32{unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_CLONE3,
		unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP}
	if !slices.Equal(a.missing[:6], want) || a.unshare != unix.SYS_UNSHARE || a.clone != unix.SYS_CLONE ||
		a.socket != unix.SYS_SOCKET || a.ptrace != unix.SYS_PTRACE ||
		a.fcntls[0] != unix.SYS_FCNTL || setLease != unix.F_SETLEASE {
		t.Errorf("%+v, want %v, %d, %d, %d", a, want, unix.SYS_UNSHARE, unix.SYS_CLONE, unix.SYS_SOCKET)
	}
	if want := []uint32{unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_SCHED_SETATTR}; !slices.Equal(a.schedules, want) {
		t.Errorf("%v, want %v", a.schedules, want)
	}
	if want := []kindCall{{unix.SYS_SETPRIORITY, unix.PRIO_PROCESS}, {unix.SYS_IOPRIO_SET, 1}}; !slices.Equal(a.priorities,
		want) {
		t.Errorf("%v, want %v", a.priorities, want)
	}
	calls := map[modeCall]bool{}
	for _, c := range append(a.modes, a.opens...) {
		calls[c] = true
	}
	for _, c := range []modeCall{{unix.SYS_FCHMOD, 1}, {unix.SYS_FCHMODAT, 2}, {unix.SYS_FCHMODAT2, 2},
		{unix.SYS_MKNODAT, 2}, {unix.SYS_OPENAT, 3}} {
		if !calls[c] {
			t.Errorf("call %d is not in %v", c.call, calls)
		}
	}
}
