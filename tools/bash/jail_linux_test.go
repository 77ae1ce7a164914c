package bash_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/workspace"
)

// What of /dev commands need is there, and works.
func TestSandboxDevices(t *testing.T) {
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, _ *tooltest.Rig) {
		for command, want := range map[string]string{
			`ls /dev | grep -vx -e console -e core | tr '\n' ' '`: "fd full null ptmx pts random shm stderr stdin stdout " +
				"tty urandom zero ",
			`echo lost >/dev/null; head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c`: "3\n3\n",
			`echo x 2>/dev/null >/dev/full || echo full`:                                        "full\n",
			`echo one >/dev/stderr; echo two >/dev/stdout`:                                      "one\ntwo\n",
			`cat <(echo substituted)`:                                                           "substituted\n",
			`exec 3<>/dev/ptmx && ls /dev/pts`:                                                  "0\nptmx\n",
			`echo shared >/dev/shm/x && cat /dev/shm/x`:                                         "shared\n",
			`for d in /tmp /dev/shm; do echo $(($(stat -f -c '%b * %S' $d))); done`:             "1073741824\n1073741824\n",
			`touch /dev/new 2>/dev/null; ls /dev/new 2>/dev/null | wc -l; cat </dev/stdin`:      "0\n",
		} {
			if got, _ := run(t, tool, command); got != want {
				t.Errorf("%s: %q, want %q", command, got, want)
			}
		}
	})
}

// Root's commands are another user's, and the workspace looks as if it was his.
func TestSandboxOfRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it is about workers that are root")
	}
	inEach(t, bash.Options{Environ: []string{"HOME=/root", "USER=root"}}, func(t *testing.T, tool tools.Tool,
		rig *tooltest.Rig) {
		rig.Put("mine", "mine\n")
		rig.Put("his", "his\n")
		for path, uid := range map[string]int{"mine": 0, "his": 1234} {
			if err := os.Chown(rig.Path(path), uid, uid); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(rig.Path(path), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Dir(rig.Root), 0o700); err != nil { // as /root is
			t.Fatal(err)
		}
		for command, want := range map[string]string{
			`id -u; id -g; id -G; echo $HOME $USER $TMPDIR`:                    "65534\n65534\n65534\n/tmp nobody /tmp\n",
			`cat mine; echo more >>mine; stat -c %u:%g mine`:                   "mine\n65534:65534\n",
			`cat his 2>/dev/null || echo refused`:                              "refused\n",
			`mkdir made && echo x >made/x && stat -c %u made/x`:                "65534\n",
			`ls ` + filepath.Dir(rig.Root) + `; ls -A /root 2>&1 | tail -c 18`: "root\nPermission denied\n",
		} {
			if got, _ := run(t, tool, command); got != want {
				t.Errorf("%s: %q, want %q", command, got, want)
			}
		}
		var st unix.Stat_t
		if err := unix.Stat(rig.Path("made/x"), &st); err != nil || st.Uid != 0 || st.Gid != 0 {
			t.Errorf("what was made belongs to %d:%d, %v", st.Uid, st.Gid, err)
		}
		if got := rig.Get("mine"); got != "mine\nmore\n" {
			t.Errorf("got %q", got)
		}
	})
}

// Where owners cannot be mapped root is refused, clearly and beforehand.
func TestSandboxOfRootThatCannotBeHad(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("it is about workers that are root")
	}
	w, err := workspace.Open(workspace.Options{Root: "/proc/self"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	for _, sandbox := range []bash.Sandbox{bash.SandboxNamespaces, bash.SandboxBubblewrap} {
		err = bash.Check(t.Context(), bash.Options{Workspace: w, Sandbox: sandbox})
		if err == nil || !strings.Contains(err.Error(), "the worker is root") &&
			!strings.Contains(err.Error(), "install bubblewrap") {
			t.Errorf("%s: %v", sandbox, err)
		}
	}
}

// otherProcEnv makes the test binary a worker on a machine that shows its processes in a second place.
const otherProcEnv = "LOOPBUS_TEST_OTHER_PROC"

const otherProc = "/mnt"

func actAsWorkerWithOtherProc() {
	raw := os.Getenv(otherProcEnv)
	if raw == "" {
		return
	}
	if err := unix.Mount("proc", otherProc, "proc", 0, ""); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	_ = os.Setenv(workerEnv, raw) // what is left is a worker's
}

// The environment of the worker cannot be read in other places where processes are shown either.
func TestSandboxHidesOtherProcs(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount what is to be hidden")
	}
	for _, sandbox := range []bash.Sandbox{bash.SandboxBubblewrap, bash.SandboxNamespaces} {
		t.Run(string(sandbox), func(t *testing.T) {
			rig := tooltest.New(t)
			need(t, bash.Options{Workspace: rig.Workspace, Sandbox: sandbox,
				Environ: os.Environ()})
			raw, err := json.Marshal(workerSpec{Root: rig.Root, Temp: t.TempDir(), Sandbox: sandbox,
				Command: "ls -d " + otherProc + "/[0-9]*; ls -A " + otherProc + " | wc -l"})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), otherProcEnv + "=" + string(raw)}
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
			said := startAndRead(t, cmd)
			if !strings.HasPrefix(said, "ended false ls: cannot access") || !strings.HasSuffix(said, " 0 \n") {
				t.Errorf("%q", said)
			}
		})
	}
}

// startAndRead starts a worker, reads the line that it says and has it end.
func startAndRead(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, _ := bufio.NewReader(out).ReadString('\n') // nothing is as wrong as anything else
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%q, %v", said, err)
	}
	return said
}

// A command has no descriptors that the worker's parent has left to the worker.
func TestDescriptorsAreNotInherited(t *testing.T) {
	rig := tooltest.New(t)
	raw, err := json.Marshal(workerSpec{Root: rig.Root, Temp: t.TempDir(),
		Command: `for fd in 3 4 5 6 7 8 9; do [ -e /proc/self/fd/$fd ] && cat <&$fd; done 2>/dev/null; true`})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), workerEnv + "=" + string(raw)}
	cmd.ExtraFiles = []*os.File{leaveOpen(t)}
	if said := startAndRead(t, cmd); said != "ended false (no output)\n" {
		t.Errorf("%q", said)
	}
}
