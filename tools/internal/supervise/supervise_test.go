//go:build unix

package supervise_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/tools/internal/supervise"
)

func TestMain(m *testing.M) {
	supervise.Main()
	goleak.VerifyTestMain(m)
}

// run runs a command to completion and returns its output.
func run(t *testing.T, cmd *exec.Cmd) (output string, status syscall.WaitStatus, err error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := supervise.Start(cmd, w)
	w.Close()
	if err != nil {
		return "", 0, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	status, err = p.Wait()
	return string(text), status, err
}

func sh(command string) *exec.Cmd { return exec.Command("/bin/sh", "-c", command) }

func TestArgumentsEnvironmentAndDirectory(t *testing.T) {
	dir := t.TempDir()
	cmd := sh(`pwd; cat; echo "$A $0 $1"; echo error >&2; set | grep -c KEY; exit 7`)
	cmd.Args = append(cmd.Args, "zero", strings.Repeat("x", 100_000))
	cmd.Dir, cmd.Env = dir, []string{"A=" + strings.Repeat("ü", 50_000), "PATH=" + os.Getenv("PATH")}
	t.Setenv("PRIVATE_KEY", "secret")
	got, status, err := run(t, cmd)
	want := dir + "\n" + strings.Repeat("ü", 50_000) + " zero " + strings.Repeat("x", 100_000) + "\nerror\n0\n"
	if err != nil || status.ExitStatus() != 7 || got != want {
		t.Errorf("%d bytes, status %d, error %v", len(got), status, err)
	}
}

func TestStatus(t *testing.T) {
	for command, want := range map[string]string{
		"exit 0": "exit 0", "exit 255": "exit 255", "kill -TERM $$": "terminated", "kill -KILL $$": "killed",
		"kill -SEGV $$": "segmentation fault",
	} {
		_, status, err := run(t, sh(command))
		got := "exit " + strconv.Itoa(status.ExitStatus())
		if status.Signaled() {
			got = status.Signal().String()
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", command, got, err, want)
		}
	}
}

// The error of a command that cannot be started is the same as for a direct child process.
func TestStartFails(t *testing.T) {
	for name, cmd := range map[string]*exec.Cmd{
		"no program":   exec.Command("/no/such/program"),
		"no directory": {Path: "/bin/sh", Args: []string{"sh"}, Dir: "/no/such/directory"},
	} {
		_, _, err := run(t, cmd)
		if path := (*os.PathError)(nil); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, status, err := run(t, sh("exit 3")); err != nil || status.ExitStatus() != 3 {
		t.Errorf("the next command: %v, %v", status, err)
	}
}

// Kill kills the process group. It may be called after the command has ended.
func TestKill(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := supervise.Start(sh("trap '' TERM; sleep 1000 & echo ready; sleep 1000; true"), w)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, 6)
	if _, err := io.ReadFull(r, ready); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	p.Kill()
	status, err := p.Wait()
	if err != nil || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("status %v, error %v", status, err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 { // returns when the last process of the group has ended
		t.Errorf("%q, %v", rest, err)
	}
	p.Kill()
}

// If the supervisor is killed, the process groups of its commands are killed, Wait returns an error, and the next
// command starts another supervisor.
func TestLostSupervisorIsReplaced(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := supervise.Start(sh("echo $PPID; sleep 1000; true"), w)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 32)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil || pid == os.Getpid() {
		t.Fatalf("the parent is %d, %v", pid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err == nil || !strings.Contains(err.Error(), "supervisor of commands was killed") {
		t.Errorf("error %v", err)
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 { // returns when the last process of the group has ended
		t.Errorf("%q, %v", rest, err)
	}
	if _, status, err := run(t, sh("exit 4")); err != nil || status.ExitStatus() != 4 {
		t.Errorf("the next command: %v, %v", status, err)
	}
}

// The supervisor survives the signals that a terminal sends to its processes.
func TestSupervisorIgnoresSignals(t *testing.T) {
	pid, _, err := run(t, sh("for s in INT TERM HUP QUIT; do kill -$s $PPID; done; echo $PPID; trap"))
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := run(t, sh("echo $PPID; trap"))
	if err != nil || again != pid {
		t.Errorf("the supervisor was %q and is %q, %v", pid, again, err)
	}
}

func TestManyAtOnce(t *testing.T) {
	var running sync.WaitGroup
	begun := time.Now()
	for i := range 200 {
		running.Go(func() {
			got, status, err := run(t, sh("echo "+strconv.Itoa(i)+"; exit "+strconv.Itoa(i)))
			if err != nil || got != strconv.Itoa(i)+"\n" || status.ExitStatus() != i {
				t.Errorf("%d: %q, %v, %v", i, got, status, err)
			}
		})
	}
	running.Wait()
	t.Logf("200 commands in %s", time.Since(begun))
}
