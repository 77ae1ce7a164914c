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

// ready reports whether main has called [Main]. Without that call a process that is started as the supervisor would
// run as an ordinary program.
var ready atomic.Bool

// Available reports whether commands can be started: whether main has called [Main].
func Available() bool { return ready.Load() }

// Main must be called at the beginning of main. In a process that is started as the supervisor it does not return.
func Main() {
	ready.Store(true)
	if len(os.Args) == 1 && os.Args[0] == name {
		os.Exit(supervise())
	}
}

// supervisor is the client's side of the supervisor. All commands of this process share one.
type supervisor struct {
	mu      sync.Mutex
	cmd     *exec.Cmd
	control *net.UnixConn // stays open as long as this process lives: the supervisor kills all commands when it closes
}

var shared supervisor

// send sends a command's socket and output to the supervisor and returns the connection to it. It starts the supervisor
// if none is running.
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

// start starts this program as the supervisor, with empty standard input and without the environment, which may contain
// keys.
func (s *supervisor) start() error {
	program, err := program()
	if err != nil {
		return err
	}
	ours, theirs, err := socketpair()
	if err != nil {
		return err
	}
	defer func() { _ = theirs.Close() }() // the supervisor has a duplicate
	control, err := connOf(ours)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: program, Args: []string{name}, Env: environment(), Dir: "/",
		Stderr: os.Stderr, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // a terminal's signals are meant for this process alone
	}
	if err := cmd.Start(); err != nil {
		_ = control.Close()
		return err
	}
	s.cmd, s.control = cmd, control
	return nil
}

// replace drops the supervisor with this control connection, unless it was replaced already. It is needed because the
// sockets of a killed process close one after the other: a command's socket may be closed while the control socket
// still accepts commands.
func (s *supervisor) replace(by *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.control != nil && s.control == by {
		s.drop()
	}
}

// drop closes the connection to a supervisor that has ended. mu is held.
func (s *supervisor) drop() {
	_ = s.control.Close() // the other end is closed
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // its status does not matter
	s.cmd, s.control = nil, nil
}

// environment returns the variables that the race detector and test coverage need, and no others.
func environment() []string {
	env := []string{}
	for _, name := range []string{"GORACE", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
