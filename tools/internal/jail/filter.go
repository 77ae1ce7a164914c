package jail

import "golang.org/x/net/bpf"

// A seccomp(2) filter refuses commands the system calls that reach past a sandbox:
//
//   - calls for keys: a command runs as the worker's user, and any process of a user that knows the number of a keyring
//     can use it;
//   - new user namespaces: a command would have all capabilities in one, and could attack much more of the kernel;
//   - sockets other than the usual ones: network namespaces do not confine vsock, for example, which connects to the
//     machine's host;
//   - setuid and setgid files in the workspace: outside of the sandbox they would give everyone who executes them the
//     rights of their owner, who is the worker's user or root;
//   - the scheduling of other processes: the first process of a sandbox, which ends it, has the user of the command.
//     With the lowest priority, beside many busy processes, it would get no time in which to end, even by SIGKILL;
//   - stops of traced processes at their exit: two processes that trace each other so cannot be ended, even by SIGKILL;
//   - leases of files: with one, a command that may only read a file of the worker's user, such as a NATS server's,
//     makes each open of that file wait for up to 45 seconds;
//   - calls that could do any of this unseen by the filter: their arguments are in memory, or they are executed later.

// Constants of the kernel's interface, from linux/audit.h, linux/sched.h, linux/seccomp.h, linux/socket.h and errno.h.
// Package unix has them on Linux only, and some only for the architecture it is compiled for.
const (
	newUserNamespace = 0x10000000
	creating         = 0x00400040 // O_CREAT, and O_TMPFILE without O_DIRECTORY
	setIDBits        = 0o6000     // S_ISUID, S_ISGID

	retAllow = 0x7fff0000
	retErrno = 0x00050000

	// Requests of ptrace that take options as their last argument, and the option that stops a process at its exit.
	oldSetOptions = 21
	setOptions    = 0x4200
	seize         = 0x4206
	traceExit     = 0x40

	// Commands of fcntl.
	setLease      = 1024 // F_SETLEASE
	setDelegation = 1040 // F_SETDELEG, a lease of a directory, of newer kernels

	notPermitted   = 1
	noSuchCall     = 38
	noSuchProtocol = 97

	offsetNumber   = 0
	offsetArch     = 4
	offsetArgument = 16 // the lower half of the first argument, on little-endian machines; each argument has 8 bytes
)

// families are the allowed socket families: unix, IPv4, IPv6, netlink and packet.
var families = []uint32{1, 2, 10, 16, 17}

// An arch is one of the system call interfaces that a kernel offers, with its call numbers. A 64-bit kernel also offers
// one for 32-bit programs.
type arch struct {
	audit                  uint32
	ignore                 uint32   // bits of a call number that are masked out
	missing                []uint32 // calls that fail with ENOSYS
	unshare, clone, socket uint32   // calls that are decided by their first argument
	modes                  []modeCall
	opens                  []modeCall
	schedules              []uint32 // calls that are allowed if their first argument is 0, the calling thread
	priorities             []kindCall
	ptrace                 uint32
	fcntls                 []uint32
}

// A modeCall is a call that takes the mode of a file; mode is the index of that argument, from 0. The calls in opens
// take their flags in the argument before it.
type modeCall struct {
	call uint32
	mode int
}

// A kindCall is a call that is allowed if its first argument is kind, one process, and its second 0, the caller itself.
type kindCall struct{ call, kind uint32 }

// missing lists add_key, request_key, keyctl, clone3, openat2, io_uring_setup and, on i386, socketcall, on amd64 the
// ptrace of x32, whose number is another one. modes lists
// chmod, fchmod, fchmodat, fchmodat2, creat, mknod and mknodat. schedules lists sched_setparam, sched_setscheduler,
// sched_setaffinity and sched_setattr, priorities setpriority and ioprio_set. fcntls lists fcntl and fcntl64.
var (
	amd64 = arch{
		0xc000003e, 0x40000000, []uint32{248, 249, 250, 435, 437, 425, 521}, 272, 56, 41,
		[]modeCall{{90, 1}, {91, 1}, {268, 2}, {452, 2}, {85, 1}, {133, 1}, {259, 2}}, []modeCall{{2, 2}, {257, 3}},
		[]uint32{142, 144, 203, 314}, []kindCall{{141, 0}, {251, 1}}, 101, []uint32{72},
	}
	i386 = arch{
		0x40000003, 0, []uint32{286, 287, 288, 435, 437, 425, 102}, 310, 120, 359,
		[]modeCall{{15, 1}, {94, 1}, {306, 2}, {452, 2}, {8, 1}, {14, 1}, {297, 2}}, []modeCall{{5, 2}, {295, 3}},
		[]uint32{154, 156, 241, 351}, []kindCall{{97, 0}, {289, 1}}, 26, []uint32{55, 221},
	}
	arm64 = arch{
		0xc00000b7, 0, []uint32{217, 218, 219, 435, 437, 425}, 97, 220, 198,
		[]modeCall{{52, 1}, {53, 2}, {452, 2}, {33, 2}}, []modeCall{{56, 3}},
		[]uint32{118, 119, 122, 274}, []kindCall{{140, 0}, {30, 1}}, 117, []uint32{25},
	}
	arm = arch{
		0x40000028, 0, []uint32{309, 310, 311, 435, 437, 425}, 337, 120, 281,
		[]modeCall{{15, 1}, {94, 1}, {333, 2}, {452, 2}, {8, 1}, {14, 1}, {324, 2}}, []modeCall{{5, 2}, {322, 3}},
		[]uint32{154, 156, 241, 380}, []kindCall{{97, 0}, {314, 1}}, 26, []uint32{55, 221},
	}
	riscv = arch{
		0xc00000f3, 0, []uint32{217, 218, 219, 435, 437, 425}, 97, 220, 198,
		[]modeCall{{52, 1}, {53, 2}, {452, 2}, {33, 2}}, []modeCall{{56, 3}},
		[]uint32{118, 119, 122, 274}, []kindCall{{140, 0}, {30, 1}}, 117, []uint32{25},
	}
)

// arches are the interfaces that a machine's kernel offers, by GOARCH, the machine's own first.
var arches = map[string][]arch{
	"amd64": {amd64, i386}, "386": {i386}, "arm64": {arm64, arm}, "arm": {arm}, "riscv64": {riscv},
}

// filterFor returns the filter for these interfaces. Calls of any other interface fail with ENOSYS.
func filterFor(list []arch) []bpf.Instruction {
	filter := []bpf.Instruction{bpf.LoadAbsolute{Off: offsetArch, Size: 4}}
	for _, a := range list {
		calls := a.filter()
		filter = append(filter, bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.audit, SkipFalse: uint8(len(calls))})
		filter = append(filter, calls...)
	}
	return append(filter, refuse(noSuchCall))
}

func refuse(errno uint32) bpf.Instruction { return bpf.RetConstant{Val: retErrno | errno} }

// argument loads argument n of a call, from 0.
func argument(n int) bpf.Instruction {
	return bpf.LoadAbsolute{Off: offsetArgument + 8*uint32(n), Size: 4}
}

// unlessBits skips instructions if none of the bits is set.
func unlessBits(bits uint32, skip uint8) bpf.Instruction {
	return bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bits, SkipFalse: skip}
}

// filter returns the instructions that decide about every call of an arch.
func (a arch) filter() []bpf.Instruction {
	allow := bpf.RetConstant{Val: retAllow}
	list := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: ^a.ignore},
	}
	when := func(call uint32, then ...bpf.Instruction) {
		list = append(list, bpf.JumpIf{Cond: bpf.JumpEqual, Val: call, SkipFalse: uint8(len(then))})
		list = append(list, then...)
	}
	for _, call := range a.missing {
		when(call, refuse(noSuchCall))
	}
	for _, call := range []uint32{a.unshare, a.clone} {
		when(call, argument(0), unlessBits(newUserNamespace, 1), refuse(notPermitted), allow)
	}
	for _, c := range a.modes {
		when(c.call, argument(c.mode), unlessBits(setIDBits, 1), refuse(notPermitted), allow)
	}
	for _, c := range a.opens {
		when(c.call, argument(c.mode-1), unlessBits(creating, 3),
			argument(c.mode), unlessBits(setIDBits, 1), refuse(notPermitted), allow)
	}
	for _, call := range a.schedules {
		when(call, argument(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 1}, allow, refuse(notPermitted))
	}
	for _, c := range a.priorities {
		when(c.call, argument(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.kind, SkipFalse: 3},
			argument(1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 1}, allow, refuse(notPermitted))
	}
	options := []bpf.Instruction{argument(0)}
	for _, request := range []uint32{oldSetOptions, setOptions, seize} {
		options = append(options, bpf.JumpIf{Cond: bpf.JumpEqual, Val: request, SkipFalse: 4},
			argument(3), unlessBits(traceExit, 1), refuse(notPermitted), allow)
	}
	when(a.ptrace, append(options, allow)...)
	for _, call := range a.fcntls {
		when(call, argument(1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: setLease, SkipTrue: 1},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: setDelegation, SkipFalse: 1},
			refuse(notPermitted), allow)
	}
	socket := []bpf.Instruction{argument(0)}
	for _, family := range families {
		socket = append(socket, bpf.JumpIf{Cond: bpf.JumpEqual, Val: family, SkipFalse: 1}, allow)
	}
	when(a.socket, append(socket, refuse(noSuchProtocol))...)
	return append(list, allow)
}
