package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// childEnv has the options of the server that the process is to run.
const childEnv = "LOOPBUS_TEST_SERVER"

// Main has to be the first call of TestMain. In a process that was started as a server it serves and does not return.
func Main() {
	config := os.Getenv(childEnv)
	if config == "" {
		return
	}
	if err := serve(config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve runs a server until standard input ends, which also happens when the test process dies. It prints a line when
// the server is up, and one when it has caught up with the other servers.
func serve(config string) error {
	var o embedded.Options
	if err := json.Unmarshal([]byte(config), &o); err != nil {
		return err
	}
	s, err := embedded.Start(o)
	if err != nil {
		return err
	}
	defer s.Shutdown()
	fmt.Println("up")
	go func() {
		if err := s.Ready(system.Deadline); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("ready")
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// child is a server in a separate process.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string // lines of its output
}

// launch starts a server process and returns once the server is up.
func launch(tb testing.TB, o embedded.Options) *child {
	tb.Helper()
	config, err := json.Marshal(o)
	if err != nil {
		tb.Fatal(err)
	}
	p := &child{cmd: exec.Command(os.Args[0]), lines: make(chan string, 8)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(config))
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	p.waitFor(tb, "up")
	return p
}

// waitFor waits for a line.
func (p *child) waitFor(tb testing.TB, want string) {
	tb.Helper()
	select {
	case got := <-p.lines:
		if got != want {
			tb.Fatalf("server printed %q, want %q", got, want)
		}
	case <-time.After(2 * system.Deadline):
		tb.Fatalf("server did not print %q", want)
	}
}

// stop shuts the server down gracefully.
func (p *child) stop() {
	_ = p.stdin.Close()
	p.wait()
}

// kill ends the process at once.
func (p *child) kill() {
	_ = p.cmd.Process.Kill()
	p.wait()
}

func (p *child) wait() {
	for range p.lines { // until it has closed its output
	}
	_ = p.cmd.Wait()
}
