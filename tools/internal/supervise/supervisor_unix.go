//go:build unix

package supervise

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
)

// ready says that main has given the supervisor its turn, so that a process which is started as one becomes one.
var ready atomic.Bool

// Available reports whether commands can be started: main has to have called [Main].
func Available() bool { return ready.Load() }

// Main is for the beginning of main. In a process that is started as the supervisor it does not return.
func Main() {
	ready.Store(true)
	if len(os.Args) == 1 && os.Args[0] == name {
		os.Exit(supervise())
	}
}

// supervisor is this side of the process that commands have for a parent. There is one for all commands of this
// process.
type supervisor struct {
	mu      sync.Mutex
	cmd     *exec.Cmd
	control *net.UnixConn // what its end means, this process must hold it as long as it lives
}

var shared supervisor

// send gives the supervisor a command's socket and output, and returns the connection to it. A supervisor that is not
// there, or no more, is started.
func (s *supervisor) send(files ...*os.File) (by *net.UnixConn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	for range 2 {
		if s.control == nil {
			if err := s.start(); err != nil {
				return nil, fmt.Errorf("start the supervisor of commands: %w", err)
			}
		}
		if _, _, err = s.control.WriteMsgUnix([]byte{0}, syscall.UnixRights(fds...), nil); err == nil {
			return s.control, nil
		}
		s.drop()
	}
	return nil, fmt.Errorf("reach the supervisor of commands: %w", err)
}

// start starts this program as the supervisor. It gets no variables, where keys may be, and nothing to read.
func (s *supervisor) start() error {
	program, err := program()
	if err != nil {
		return err
	}
	ours, theirs, err := socketpair()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }() // the supervisor has its own
	control, err := connOf(ours)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: program, Args: []string{name}, Env: environment(), Dir: "/",
		Stderr: os.Stderr, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // signals of a terminal are for this process
	}
	if err := cmd.Start(); err != nil {
		_ = control.Close()
		return err
	}
	s.cmd, s.control = cmd, control
	return nil
}

// lost drops the supervisor that the connection is to, unless another has taken its place. The sockets of a process
// that is killed close one after the other: a command's may be closed while the supervisor's still takes commands.
func (s *supervisor) lost(by *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control != nil && s.control == by {
		s.drop()
	}
}

// drop forgets a supervisor that has ended.
func (s *supervisor) drop() {
	_ = s.control.Close() // nobody is at the other end
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // how it ended does not matter
	s.cmd, s.control = nil, nil
}

// environment is what the race detector and coverage of tests need, and nothing else.
func environment() []string {
	env := []string{}
	for _, name := range []string{"GORACE", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
