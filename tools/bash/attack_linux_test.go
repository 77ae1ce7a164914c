package bash_test

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

// attackEnv makes the test binary an attacker: a command that tries to leave the sandbox that it runs in. Its value is
// the path of a file that is hidden from it.
const attackEnv = "LOOPBUS_TEST_ATTACK"

// treasure is what the attacker must not read.
const treasure = "loopbus-treasure"

// An attack returns nil if it has succeeded.
type attack struct {
	name string
	try  func(hidden string) error
}

// actAsAttacker tries all attacks, says of each how it ended, and does not return in a process that is for that.
func actAsAttacker() {
	hidden := os.Getenv(attackEnv)
	if hidden == "" {
		return
	}
	for _, group := range [][]attack{powerAttacks(), memoryAttacks(), mountAttacks(), scheduleAttacks(), exitAttacks(),
		leaseAttacks(), fileAttacks(), otherAttacks()} {
		for _, a := range group {
			outcome := "refused"
			err := a.try(hidden)
			if err == nil {
				outcome = "won"
			}
			fmt.Printf("%s\t%s\t%v\n", outcome, a.name, err)
		}
	}
	fmt.Println("end")
	os.Exit(0)
}

// TestSandboxIsNotLeft has a program attack its sandbox, of which nothing may succeed.
func TestSandboxIsNotLeft(t *testing.T) {
	secret := leaveOpen(t)
	abstract := listenAbstract(t)
	o := bash.Options{SandboxHide: []string{"hidden/key", "keys"}}
	inEach(t, o, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		runtime.LockOSThread() // the session keyring is the thread's; both end with the test
		keepKey(t)
		rig.Put("hidden/key", treasure)
		rig.Put("keys/key", treasure)
		makeDevice(t, rig.Path("device"))
		copySelf(t, rig.Root)
		got, isError := run(t, tool, fmt.Sprintf("%s=%s %s=%s %s='%s' ./self 2>&1", attackEnv, rig.Path("keys/key"),
			abstractEnv, abstract, keyringEnv, userKeyring(t)))
		if isError || !strings.HasSuffix(got, "end\n") {
			t.Fatalf("%v %s", isError, got)
		}
		lines := bufio.NewScanner(strings.NewReader(got))
		for n := 0; lines.Scan(); n++ {
			if strings.HasPrefix(lines.Text(), "won\t") {
				t.Errorf("%s", lines.Text())
			} else {
				t.Log(lines.Text())
			}
		}
	})
	if _, err := secret.Stat(); err != nil {
		t.Error(err)
	}
}

// leaveOpen opens a file as one that the worker's parent has left to it: programs that it starts inherit it.
func leaveOpen(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "open")
	if err := os.WriteFile(path, []byte(treasure), 0o644); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

const abstractEnv = "LOOPBUS_TEST_SOCKET"

// listenAbstract listens on a socket that has no place in the file system.
func listenAbstract(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("@loopbus-test-%d", os.Getpid())
	listener, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return name
}

// keepKey puts a key into the session keyring of this thread, which is a new one.
func keepKey(t *testing.T) {
	t.Helper()
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if errno == unix.ENOSYS || errno == unix.EPERM {
		t.Logf("no keyrings here: %v", errno)
		return
	} else if errno != 0 {
		t.Fatal(errno)
	}
	if _, err := unix.AddKey("user", treasure, []byte(treasure), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Fatal(err)
	}
}

// makeDevice makes a device in the workspace, which only root can: there none may be opened.
func makeDevice(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		t.Logf("no device in the workspace: %v", err)
		return
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
}

// keyringEnv has the number of the worker's user's keyring and, after a space, what the key in it is called.
const keyringEnv = "LOOPBUS_TEST_KEYRING"

// userKeyring is the number of the keyring that the worker's user has, and the name of a key in it. The keyring can be
// used by anybody of the same user who knows the number: also by another run of this test, at the same time or killed
// before its end, whose key nobody else may change. So the key's name is of this run alone, and the key ends by itself.
func userKeyring(t *testing.T) string {
	t.Helper()
	id, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
	if err != nil {
		t.Logf("no keyrings here: %v", err)
		return ""
	}
	name := treasure + "-" + rand.Text()
	key, err := unix.AddKey("user", name, []byte(treasure), unix.KEY_SPEC_THREAD_KEYRING)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.KeyctlInt(unix.KEYCTL_SET_TIMEOUT, key, 600, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.KeyctlInt(unix.KEYCTL_LINK, key, id, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, key, id, 0, 0) })
	return fmt.Sprintf("%d %s", id, name)
}
