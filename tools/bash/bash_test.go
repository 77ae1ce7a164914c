package bash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/workspace"
)

func TestMain(m *testing.M) {
	leaveMainThread()
	bash.RunHelper()
	actAs(nobodyEnv, checksOfNobody)
	actAs(sharedMountsEnv, mountForCommands)
	actAsWorkerWithOtherProc()
	actAs(workerEnv, work)
	actAsAttacker()
	actAsDeserter()
	goleak.VerifyTestMain(m)
}

// actAs makes the test binary another process, which does what do does, if the variable is set. It does not return in
// such a process.
func actAs(variable string, do func(value string) error) {
	value := os.Getenv(variable)
	if value == "" {
		return
	}
	if err := do(value); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func setUp(t *testing.T, o bash.Options) (tool tools.Tool, root string) {
	t.Helper()
	rig := tooltest.New(t)
	o.Workspace = rig.Workspace
	if o.TempDir == "" {
		o.TempDir = t.TempDir()
	}
	o.Environ = append(o.Environ, "PATH="+os.Getenv("PATH"))
	return bash.New(o), rig.Root
}

func call(command string) tools.Call {
	args, _ := json.Marshal(map[string]string{"command": command})
	return tools.Call{Arguments: args}
}

func run(t *testing.T, tool tools.Tool, command string) (string, bool) {
	t.Helper()
	result, isError := tool.Run(t.Context(), call(command), nil)
	return result.Content.JoinText(), isError
}

func TestKeysDoNotLeak(t *testing.T) {
	tool, _ := setUp(t, bash.Options{
		Environ: []string{"MODEL_API_KEY=secret", "NATS_CREDS=secret", "LANG=C", "LC_ALL=C", "GOFLAGS=-mod=mod", "PATHS=x",
			"HOME=/h"},
		Env: []string{"GO*"},
	})
	got, _ := run(t, tool, `unset PATH PWD OLDPWD SHLVL _; env=/usr/bin/env; [ -x $env ] || env=/bin/env; $env | `+
		`/usr/bin/sort | /bin/grep -v '^_='`)
	if want := "GOFLAGS=-mod=mod\nHOME=/h\nLANG=C\nLC_ALL=C\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Whoever holds the pipe open is alive: when its end comes, the shell, its child and the child's child are gone.
func TestAbortKillsTheWholeGroup(t *testing.T) {
	for name, command := range map[string]string{
		"children of children":     `(bash -c 'bash -c "echo ready >&3; sleep 300" & wait' & wait); echo no`,
		"one that ignores signals": `bash -c 'trap "" TERM INT HUP; echo ready >&3; while :; do sleep 300; done'; echo no`,
		"a shell that does":        `trap "" TERM INT HUP; echo ready >&3; while :; do sleep 300; done`,
		"one that has left it":     deserterEnv + `=1 exec "$SELF"`,
	} {
		t.Run(name, func(t *testing.T) { testAbort(t, command) })
	}
}

func testAbort(t *testing.T, command string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tool, root := setUp(t, bash.Options{Environ: []string{"SELF=" + self}, Env: []string{"SELF"}})
	fifo := filepath.Join(root, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type answer struct {
		result  schemas.ToolResult
		isError bool
	}
	answered := make(chan answer, 1)
	go func() {
		r, isError := tool.Run(ctx, call(`exec 3>fifo; echo begun; `+command), nil)
		answered <- answer{r, isError}
	}()
	pipe, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	ready := make([]byte, 6)
	if _, err := io.ReadFull(pipe, ready); err != nil || string(ready) != "ready\n" {
		t.Fatalf("%q, %v", ready, err)
	}
	cancel()
	got := within(t, answered)
	if want := "begun\n\n\nCommand aborted"; !got.isError || got.result.Content.JoinText() != want {
		t.Errorf("%v %q", got.isError, got.result.Content.JoinText())
	}
	ended := make(chan error, 1)
	go func() { _, err := pipe.Read(ready); ended <- err }()
	if err := within(t, ended); err != io.EOF {
		t.Errorf("somebody still holds the pipe: %v", err)
	}
}

// deserterEnv makes the test binary a command that leaves the process group that it leads.
const deserterEnv = "LOOPBUS_TEST_DESERTER"

// actAsDeserter goes over to the group of a child, says so, and does not return in a process that is for that.
func actAsDeserter() {
	if os.Getenv(deserterEnv) == "" {
		return
	}
	const pipe = 3
	syscall.CloseOnExec(pipe)
	child := exec.Command("sleep", "300") // the supervisor ends it with the test
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := child.Start()
	if err == nil {
		err = syscall.Setpgid(0, child.Process.Pid)
	}
	if err == nil {
		_, err = os.NewFile(pipe, "pipe").WriteString("ready\n")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Sleep(time.Hour) // not select: without cgo, Go ends a program whose goroutines all wait
}

func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("waited for a minute")
		panic("unreachable")
	}
}

func TestTimeLimits(t *testing.T) {
	tool, _ := setUp(t, bash.Options{})
	limited, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond,
		&tools.TimeLimitError{Limit: 2500 * time.Millisecond})
	defer cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		args string
		want string
	}{
		"the call's own": {t.Context(), `{"command":"sleep 300","timeout":0.05}`,
			"Command timed out after 0.05 seconds"},
		"the worker's":            {limited, `{"command":"sleep 300"}`, "Command timed out after 2.5 seconds"},
		"a negative one is none":  {t.Context(), `{"command":"echo a","timeout":-1}`, "a\n"},
		"an enormous one is none": {t.Context(), `{"command":"echo a","timeout":1e300}`, "a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			result, _ := tool.Run(c.ctx, tools.Call{Arguments: json.RawMessage(c.args)}, nil)
			if got := result.Content.JoinText(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A background process that holds the output open delays the end for a moment, and lives on.
func TestBackgroundProcessIsNotWaitedFor(t *testing.T) {
	tool, root := setUp(t, bash.Options{})
	begun := time.Now()
	got, isError := run(t, tool, `(sleep 300; echo late) & echo $! >pid; echo now`)
	if isError || got != "now\n" {
		t.Errorf("%v %q", isError, got)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("took %s", took)
	}
	raw, err := os.ReadFile(filepath.Join(root, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(raw), &pid); err != nil {
		t.Fatal(err)
	}
	group, err := syscall.Getpgid(pid)
	if err != nil {
		t.Fatalf("the background process is gone: %v", err)
	}
	if err := syscall.Kill(-group, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// What a background process writes in that moment belongs to the output, which ends with its last writer.
func TestBackgroundProcessThatEndsSoon(t *testing.T) {
	tool, _ := setUp(t, bash.Options{Linger: 10 * time.Minute})
	if got, isError := run(t, tool, `(sleep 0.02; echo soon) & echo now`); isError || got != "now\nsoon\n" {
		t.Errorf("%v %q", isError, got)
	}
}

// A working directory that leads out of the root, or is made to later, is refused.
func TestWorkingDirectoryOutside(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("d/f", "")
	w, err := workspace.Open(workspace.Options{Root: rig.Root, Dir: "d"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	tool := bash.New(bash.Options{Workspace: w, TempDir: t.TempDir()})
	if got, _ := run(t, tool, "echo *"); got != "f\n" {
		t.Errorf("inside: %q", got)
	}
	if err := os.RemoveAll(rig.Path("d")); err != nil {
		t.Fatal(err)
	}
	rig.Link("d", "../outside")
	if got, _ := run(t, tool, "echo *"); got != "Access denied: "+rig.Path("d")+" is outside "+rig.Root+
		", and only files inside may be used" {
		t.Errorf("outside: %q", got)
	}
}

func TestSignals(t *testing.T) {
	tool, _ := setUp(t, bash.Options{})
	got, isError := run(t, tool, `echo a; kill -TERM $$`)
	if !isError || got != "a\n\n\nCommand was terminated by a signal: terminated" {
		t.Errorf("%v %q", isError, got)
	}
}

func TestUpdates(t *testing.T) {
	tool, root := setUp(t, bash.Options{UpdateEvery: time.Millisecond})
	fifo := filepath.Join(root, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []string
	first := make(chan struct{})
	update := func(r schemas.ToolResult) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Content.JoinText()+string(r.Details))
		if len(got) == 2 {
			close(first)
		}
	}
	done := make(chan bool, 1)
	go func() {
		_, isError := tool.Run(t.Context(), call(`echo a; read <fifo; echo b`), update)
		done <- isError
	}()
	within(t, first) // a is shown while the command still runs
	pipe, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = pipe.Close()
	within(t, done)
	if d := cmp.Diff([]string{"", "a\n{}", "a\nb\n{}"}, got); d != "" {
		t.Error(d)
	}
}

func TestLongLineWithItsBreakIsShownInPart(t *testing.T) {
	tool, _ := setUp(t, bash.Options{})
	got, _ := run(t, tool, `echo first; printf '%060000d\n' 7`)
	if !strings.Contains(got, "00007\n\n\n[Showing last 50.0KB of line 2 (line is 58.6KB). Full output: ") {
		t.Errorf("%q", got[len(got)-200:])
	}
}
