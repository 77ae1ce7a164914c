package bash_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/workspace"
)

// workerEnv makes the test binary a process that runs a command and then does nothing.
const workerEnv = "LOOPBUS_TEST_BASH_WORKER"

type workerSpec struct {
	Root, Temp, Command string
	Sandbox             bash.Sandbox
}

// work runs the command of a workerSpec. It says when the command has ended, and returns when its input ends.
func work(raw string) error {
	var spec workerSpec
	if err := json.Unmarshal([]byte(raw), &spec); err != nil {
		return err
	}
	if spec.Sandbox == "" {
		bash.HideEnvironment()
	}
	w, err := workspace.Open(workspace.Options{Root: spec.Root})
	if err != nil {
		return err
	}
	tool := bash.New(bash.Options{Workspace: w, TempDir: spec.Temp, Environ: os.Environ(),
		Env: []string{otherThreadEnv}, Sandbox: spec.Sandbox})
	go func() {
		result, isError := tool.Run(context.Background(), call(spec.Command), nil)
		fmt.Println("ended", isError, strings.ReplaceAll(result.Content.JoinText(), "\n", " "))
	}()
	_, err = bufio.NewReader(os.Stdin).ReadByte() // nothing comes
	if err != nil && err.Error() == "EOF" {
		return nil
	}
	return err
}

// otherThreadEnv has a process leave its main thread before it begins, as happens by itself when the machine is busy.
const otherThreadEnv = "OTHER_THREAD_OF_A_TEST"

// leaveMainThread has this goroutine go on with another thread of the process than the first.
func leaveMainThread() {
	if os.Getenv(otherThreadEnv) == "" {
		return
	}
	for unix.Gettid() == os.Getpid() {
		held := make(chan bool)
		go func() {
			runtime.LockOSThread()
			first := unix.Gettid() == os.Getpid()
			held <- first
			if first {
				select {}
			}
			runtime.UnlockOSThread()
		}()
		<-held
	}
}

// startWorker starts a process that runs a command.
func startWorker(t *testing.T, spec workerSpec, environ ...string) (worker *exec.Cmd, said *bufio.Reader, stop func()) {
	t.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	worker = exec.Command("/proc/self/exe")
	worker.Env = []string{"PATH=" + os.Getenv("PATH"), workerEnv + "=" + string(raw), "GORACE=atexit_sleep_ms=0"}
	worker.Env = append(worker.Env, environ...)
	worker.Stderr = os.Stderr
	in, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait() // it was killed
	})
	return worker, bufio.NewReader(out), func() { _ = in.Close() }
}

// alive are the processes with a word in their command line.
func alive(t *testing.T, word string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, _ := os.ReadFile(file) // it may be gone
		if strings.Contains(string(line), word) {
			found = append(found, strings.Split(file, "/")[2]+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// sleeping reports whether a sleep of that length is at work.
func sleeping(t *testing.T, length string) bool {
	for _, p := range alive(t, length) {
		if strings.HasSuffix(p, " sleep "+length+" ") {
			return true
		}
	}
	return false
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(within)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// gone is how long what a worker has started may outlive it.
const gone = 2 * time.Second

// background are the ways to hide from whoever kills a shell's group. LENGTH is that of a sleep by which it is found.
var background = map[string]string{
	"the shell":                `exec sleep LENGTH`,
	"a child":                  `sleep LENGTH`,
	"a job":                    `sleep LENGTH &`,
	"a session of its own":     `setsid sleep LENGTH &`,
	"signals ignored":          `nohup sh -c 'trap "" TERM INT HUP; sleep LENGTH; true' >/dev/null 2>&1 & disown`,
	"a fork of a fork":         `(setsid sh -c '(sleep LENGTH &) & exit' &)`,
	"without its variables":    `env -i setsid -f sleep LENGTH`,
	"stopped":                  `setsid sh -c 'sleep LENGTH & kill -STOP $$' &`,
	"a child of one that ends": `sh -c 'sleep LENGTH & sleep 0.2' &`,
}

// TestCommandsEndWithTheirWorker has a worker go while a command runs, or after it has left something behind.
func TestCommandsEndWithTheirWorker(t *testing.T) {
	leave := map[string]func(worker *exec.Cmd, stop func()){
		"killed":     func(worker *exec.Cmd, _ func()) { _ = worker.Process.Kill() },
		"terminated": func(worker *exec.Cmd, _ func()) { _ = worker.Process.Signal(syscall.SIGTERM) },
		"stopped":    func(_ *exec.Cmd, stop func()) { stop() },
	}
	n := 0
	for how, command := range background {
		for after, rest := range map[string]string{"at work": "\nsleep LENGTH; true", "ended": ""} {
			for why, leave := range leave {
				if n++; why != "killed" && how != "a session of its own" {
					continue // the supervisor sees no difference
				}
				length := fmt.Sprintf("%d.%06d", 5_000_000+n, os.Getpid())
				t.Run(how+", "+after+", "+why, func(t *testing.T) {
					t.Parallel()
					rig := tooltest.New(t)
					spec := workerSpec{Root: rig.Root, Temp: t.TempDir(), Command: strings.ReplaceAll(command+rest, "LENGTH", length)}
					worker, said, stop := startWorker(t, spec)
					if foreground := !strings.Contains(command, "&") && !strings.Contains(command, "-f"); rest == "" && !foreground {
						if line, err := said.ReadString('\n'); err != nil || !strings.HasPrefix(line, "ended false") {
							t.Fatalf("the command: %q, %v", line, err)
						}
					}
					eventually(t, 20*time.Second, "it runs", func() bool { return sleeping(t, length) })
					leave(worker, stop)
					eventually(t, gone, "nothing of it is left", func() bool { return len(alive(t, length)) == 0 })
				})
			}
		}
	}
}

// TestSandboxesEndWithTheirWorker is the same with a sandbox around the command, which ends by itself: also if its
// parts have not gone on with the thread that the kernel would send a signal to.
func TestSandboxesEndWithTheirWorker(t *testing.T) {
	for i, sandbox := range []bash.Sandbox{bash.SandboxBubblewrap, bash.SandboxNamespaces} {
		for j, environ := range [][]string{nil, {otherThreadEnv + "=1"}} {
			t.Run(fmt.Sprint(sandbox, environ), func(t *testing.T) {
				t.Parallel()
				rig := tooltest.New(t)
				need(t, bash.Options{Workspace: rig.Workspace, Sandbox: sandbox, Environ: os.Environ()})
				length := fmt.Sprintf("%d.%06d", 4_000_000+2*i+j, os.Getpid())
				command := fmt.Sprintf("setsid sleep %s & (setsid sh -c '(sleep %[1]s &) & exit' &); trap '' TERM INT HUP; "+
					"sleep %[1]s; true", length)
				spec := workerSpec{Root: rig.Root, Temp: t.TempDir(), Command: command, Sandbox: sandbox}
				worker, _, _ := startWorker(t, spec, environ...)
				eventually(t, 20*time.Second, "it runs", func() bool { return sleeping(t, length) })
				if err := worker.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				eventually(t, gone, "nothing of it is left", func() bool { return len(alive(t, length)) == 0 })
			})
		}
	}
}
