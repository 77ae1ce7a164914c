package jail

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
)

// called returns the filter's answer to a call.
func called(t *testing.T, list []arch, audit, number uint32, arguments ...uint32) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(filterFor(list))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offsetNumber:], number) // the byte order of bpf.VM
	binary.BigEndian.PutUint32(data[offsetArch:], audit)
	for n, value := range arguments {
		binary.BigEndian.PutUint32(data[offsetArgument+8*n:], value)
	}
	answer, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(answer)
}

func TestFilter(t *testing.T) {
	t.Parallel()
	const (
		read, x32 = 0, 0x40000000
		thread    = 0x00010f00
	)
	for goarch, list := range arches {
		for _, a := range list {
			for name, c := range map[string]struct{ call, argument, want uint32 }{
				"any call":              {999, 0, retAllow},
				"another any call":      {read, 0, retAllow},
				"add_key":               {a.missing[0], 0, retErrno | noSuchCall},
				"keyctl":                {a.missing[2], 0, retErrno | noSuchCall},
				"clone3":                {a.missing[3], 0, retErrno | noSuchCall},
				"unshare":               {a.unshare, 0x20000, retAllow},
				"unshare a user":        {a.unshare, newUserNamespace | 0x20000, retErrno | notPermitted},
				"clone of a thread":     {a.clone, thread, retAllow},
				"clone of a user":       {a.clone, newUserNamespace | 17, retErrno | notPermitted},
				"unix socket":           {a.socket, 1, retAllow},
				"IPv6 socket":           {a.socket, 10, retAllow},
				"socket to the host":    {a.socket, 40, retErrno | noSuchProtocol},
				"socket of the ciphers": {a.socket, 38, retErrno | noSuchProtocol},
			} {
				if got := called(t, list, a.audit, c.call, c.argument); got != c.want {
					t.Errorf("%s, %#x, %s: %#x, want %#x", goarch, a.audit, name, got, c.want)
				}
			}
			for _, call := range a.schedules {
				testOthers(t, list, a, call, nil)
			}
			for _, c := range a.priorities {
				testOthers(t, list, a, c.call, []uint32{c.kind})
				if got := called(t, list, a.audit, c.call, c.kind+1, 0); got != retErrno|notPermitted {
					t.Errorf("%s, %#x, call %d for a group: %#x", goarch, a.audit, c.call, got)
				}
			}
			for _, request := range []uint32{oldSetOptions, setOptions, seize} {
				for options, want := range map[uint32]uint32{0: retAllow, 1: retAllow, traceExit | 1: retErrno | notPermitted} {
					if got := called(t, list, a.audit, a.ptrace, request, 7, 0, options); got != want {
						t.Errorf("%s, %#x, ptrace %#x with options %#x: %#x, want %#x", goarch, a.audit, request, options, got, want)
					}
				}
			}
			if got := called(t, list, a.audit, a.ptrace, 16, 7, 0, traceExit); got != retAllow { // no options: a signal
				t.Errorf("%s, %#x, ptrace of another kind: %#x", goarch, a.audit, got)
			}
			for _, call := range a.fcntls {
				for command, want := range map[uint32]uint32{0: retAllow, 6: retAllow, 1025: retAllow,
					setLease: retErrno | notPermitted, setDelegation: retErrno | notPermitted} {
					if got := called(t, list, a.audit, call, 3, command, 1); got != want {
						t.Errorf("%s, %#x, fcntl %d with %d: %#x, want %#x", goarch, a.audit, call, command, got, want)
					}
				}
			}
			for _, c := range a.modes {
				testMode(t, list, a, c, 0)
			}
			for _, c := range a.opens {
				testMode(t, list, a, c, 0x41)
				arguments := make([]uint32, c.mode+1)
				arguments[c.mode] = 0o4755 // ignored unless the call creates a file
				if got := called(t, list, a.audit, c.call, arguments...); got != retAllow {
					t.Errorf("%s, %#x, open %d for reading: %#x", goarch, a.audit, c.call, got)
				}
			}
		}
	}
	if got := called(t, arches["amd64"], amd64.audit, x32|amd64.missing[2], 0); got != retErrno|noSuchCall {
		t.Errorf("keyctl of x32: %#x", got)
	}
	if got := called(t, arches["amd64"], amd64.audit, x32|521, seize, 7, 0, traceExit); got != retErrno|noSuchCall {
		t.Errorf("ptrace of x32: %#x", got)
	}
	if got := called(t, arches["amd64"], i386.audit, 102, 1); got != retErrno|noSuchCall {
		t.Errorf("socketcall of i386: %#x", got)
	}
	if got := called(t, arches["amd64"], 0x80000016, 4, 0); got != retErrno|noSuchCall {
		t.Errorf("an arch that is not there: %#x", got)
	}
}

// testOthers checks a call that may concern the calling thread only; process is the argument behind the given ones.
func testOthers(t *testing.T, list []arch, a arch, call uint32, given []uint32) {
	t.Helper()
	for process, want := range map[uint32]uint32{0: retAllow, 1: retErrno | notPermitted, 77: retErrno | notPermitted} {
		if got := called(t, list, a.audit, call, append(given[:len(given):len(given)], process)...); got != want {
			t.Errorf("%#x, call %d for process %d: %#x, want %#x", a.audit, call, process, got, want)
		}
	}
}

// testMode checks a call that creates a file or changes its mode, with several modes.
func testMode(t *testing.T, list []arch, a arch, c modeCall, flags uint32) {
	t.Helper()
	for mode, want := range map[uint32]uint32{
		0o755: retAllow, 0o1777: retAllow, 0o4755: retErrno | notPermitted, 0o2755: retErrno | notPermitted,
		0o100000 | 0o4755: retErrno | notPermitted,
	} {
		arguments := make([]uint32, c.mode+1)
		arguments[c.mode-1], arguments[c.mode] = flags, mode
		if got := called(t, list, a.audit, c.call, arguments...); got != want {
			t.Errorf("%#x, call %d, mode %o: %#x, want %#x", a.audit, c.call, mode, got, want)
		}
	}
}
