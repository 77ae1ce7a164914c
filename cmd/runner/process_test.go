package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/tools/bash"
)

// deadline is how long a test waits for something that has to happen.
const deadline = 60 * time.Second

// asRunner in the environment makes the test binary the runner itself.
const asRunner = "RUNNER_TEST_AS_RUNNER"

func TestMain(m *testing.M) {
	bash.RunHelper()
	if os.Getenv(asRunner) != "" {
		bustest.CollectSeldom()
		main()
		os.Exit(0)
	}
	bustest.Main(m)
}

// process is a runner of its own.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{} // closed when it has ended
	temp           string        // its directory for temporary files
}

// output may be read while it is written.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs the runner with settings in the environment (NAME=value) and arguments, in an empty directory of its own.
// It is killed when the test ends.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, done: make(chan struct{}), temp: t.TempDir()}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Dir = t.TempDir()
	p.cmd.Env = append([]string{asRunner + "=1", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + p.temp,
		"GORACE=atexit_sleep_ms=0"}, env...) // the race detector would sleep for a second at every exit
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = time.Second // what a killed runner leaves running may hold its output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the state tells
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("runner %q said:\n%s%s", args, p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

// wait returns the exit code, -1 if a signal ended it.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(deadline):
		p.t.Fatal("the runner does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// wantExit waits for the end and wants an exit code.
func (p *process) wantExit(code int) *process {
	p.t.Helper()
	if got := p.wait(); got != code {
		p.t.Errorf("the runner exited with %d, want %d", got, code)
	}
	return p
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// logged waits for a line of the log in JSON and returns one of its members.
func (p *process) logged(message, member string) string {
	p.t.Helper()
	var value string
	eventually(p.t, "the log says "+message, func() bool {
		for line := range strings.Lines(p.stderr.String()) {
			var entry map[string]any
			if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == message {
				value = fmt.Sprint(entry[member])
				return true
			}
		}
		select {
		case <-p.done:
			p.t.Fatalf("the runner ended before it said %q:\n%s", message, p.stderr.String())
		default:
		}
		return false
	})
	return value
}

// ready waits until a serving runner, which logs JSON and listens for HTTP, reads its share of the sessions.
func (p *process) ready() *process {
	p.t.Helper()
	url := "http://" + p.logged("health and metrics", "address") + "/readyz"
	eventually(p.t, "the runner is ready", func() bool {
		code, _ := get(url)
		return code == http.StatusOK
	})
	return p
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	bustest.Eventually(t, what, ok)
}

// write makes a file in a directory of its own.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
