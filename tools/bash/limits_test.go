package bash_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/workspace"
)

var limits = bash.Limits{Memory: 256 << 20, CPU: time.Second, FileSize: 1 << 20}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("none", func(t *testing.T) {
		rig := tooltest.New(t)
		o := bash.Options{Workspace: rig.Workspace, Environ: []string{"PATH=" + os.Getenv("PATH")}, TempDir: t.TempDir(),
			Limits: limits}
		if err := bash.Check(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		testLimits(t, bash.New(o), rig)
		if got, _ := run(t, bash.New(o), `while :; do :; done`); !strings.Contains(got, "CPU time limit exceeded") {
			t.Errorf("processor time: %q", got)
		}
	})
	inEach(t, bash.Options{Limits: limits}, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		testLimits(t, tool, rig)
		if got, isError := run(t, tool, `ulimit -v unlimited`); !isError {
			t.Errorf("a limit was raised: %q", got)
		}
	})
}

// The limits hold for children of children.
func testLimits(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
	t.Helper()
	const grandchild = `bash -c 'bash -c "ulimit -v; ulimit -t; ulimit -f"'; echo "$0" $#`
	if got, _ := run(t, tool, grandchild); got != "262144\n1\n1024\n/bin/bash 0\n" {
		t.Errorf("limits: %q", got)
	}
	const memory = `head -c 400000000 /dev/zero | tail -c 390000000 | wc -c; exit ${PIPESTATUS[1]}`
	if got, isError := run(t, tool, memory); !isError {
		t.Errorf("memory: %q", got)
	}
	if got, isError := run(t, tool, `head -c 3000000 /dev/zero >big; exit $?`); !isError {
		t.Errorf("file size: %v %q", isError, got)
	}
	if info, err := os.Stat(rig.Path("big")); err != nil || info.Size() > limits.FileSize {
		t.Errorf("the file: %v, %v", info, err)
	}
}

// nobody is a user without powers, and nobodyEnv makes the test binary one's process, with a workspace there.
const (
	nobody    = 65534
	nobodyEnv = "LOOPBUS_TEST_NOBODY"
)

// What follows holds for users other than root only. If the tests run as root they make a process of another one.
func TestAsUserWithoutPowers(t *testing.T) {
	dir := dirOfNobody(t)
	root := filepath.Join(dir, "root")
	cmd := exec.Command(copySelf(t, dir))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), nobodyEnv + "=" + root, "MODEL_API_KEY=hidden-key"}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		err := bash.Check(t.Context(), bash.Options{Workspace: tooltest.New(t).Workspace, Limits: bash.Limits{Processes: 5}})
		if err == nil || !strings.Contains(err.Error(), "root has as many processes as it likes") {
			t.Errorf("a limit of processes for root: %v", err)
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Error(err)
	}
	t.Logf("%s", out)
}

// TestSandboxesOfAUserWithoutPowers has all tests of sandboxes run once more, as another user.
func TestSandboxesOfAUserWithoutPowers(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("the tests run as a user without powers anyway, and only root can become another one")
	}
	dir := dirOfNobody(t)
	which := "^TestSandbox"
	if !*allOfNobody {
		which += keptFromNobody
	}
	cmd := exec.Command(copySelf(t, dir), "-test.run", which, "-test.v", "-test.timeout", "5m")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(dir, "root"), "HOME=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\n--- PASS: TestSandboxIsNotLeft") {
		t.Errorf("%v\n%s", err, out)
	}
}

// allOfNobody has that user run all tests of sandboxes, not only those of what a sandbox keeps from commands.
var allOfNobody = flag.Bool("sandbox.all", false, "run all tests of sandboxes as a user without powers, too")

const keptFromNobody = "(IsNotLeft|ConfinesTheFileSystem|HidesFiles|HidesStores|TakesPowersAway|Devices|Network)$"

// dirOfNobody makes a directory that anybody can enter, with the directory root in it where anybody may write.
func dirOfNobody(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "loopbus-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "root"), 0o777); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o755, filepath.Join(dir, "root"): 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func copySelf(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	path := filepath.Join(dir, "self")
	syscall.ForkLock.RLock() // a process that another test forks has the file open until it executes its program
	defer syscall.ForkLock.RUnlock()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(file, self)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// checksOfNobody makes the checks in a process of their user.
func checksOfNobody(root string) error {
	w, err := workspace.Open(workspace.Options{Root: root})
	if err != nil {
		return err
	}
	ctx := context.Background()
	o := bash.Options{Workspace: w, Environ: os.Environ(), Limits: bash.Limits{Processes: 12}}
	if err := bash.Check(ctx, o); err != nil {
		return err
	}
	say := func(command string) string {
		result, _ := bash.New(o).Run(ctx, call(command), nil)
		return result.Content.JoinText()
	}
	if got := say(`ulimit -u unlimited 2>/dev/null || ulimit -u`); got != "12\n" {
		return fmt.Errorf("the limit of processes: %q", got)
	}
	const fifteen = `sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 60 & done; echo all'`
	if got := say(fifteen); strings.Contains(got, "all") {
		return fmt.Errorf("too many processes: %q", got)
	}
	o.Limits = bash.Limits{}
	for _, sandbox := range []bash.Sandbox{bash.SandboxBubblewrap, bash.SandboxNamespaces} {
		o.Sandbox = sandbox
		if err := bash.Check(ctx, o); err != nil {
			if !strings.Contains(err.Error(), "cannot be had on this machine") &&
				!strings.Contains(err.Error(), "install bubblewrap") {
				return fmt.Errorf("refused without a clear text: %w", err)
			}
			fmt.Println("this machine does not have it:", err)
			continue
		}
		want := fmt.Sprintf("%d\nCapEff:0000000000000000\nwritten\n", os.Getuid())
		const rights = `id -u; grep CapEff /proc/self/status | tr -d '\t'; echo written >here && cat here && rm here`
		if got := say(rights); got != want {
			return fmt.Errorf("in %s: %q, want %q", sandbox, got, want)
		}
	}
	o.Sandbox = bash.SandboxNone
	environment := fmt.Sprintf(`tr '\0' '\n' </proc/%d/environ`, os.Getpid())
	if got := say(`tr '\0' '\n' </proc/$PPID/environ`); got != "(no output)" {
		return fmt.Errorf("the environment of the supervisor: %q", got)
	}
	if got := say(environment); !strings.Contains(got, "hidden-key") {
		return fmt.Errorf("the environment of the worker, not hidden yet: %q", got)
	}
	bash.HideEnvironment()
	if got := say(environment); strings.Contains(got, "hidden-key") {
		return fmt.Errorf("a key leaks: %q", got)
	}
	return nil
}
