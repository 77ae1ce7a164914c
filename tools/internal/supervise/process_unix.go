//go:build unix

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// errLost is the error of a command whose supervisor was killed. What is known of the command is killed, too.
var errLost = errors.New("the supervisor of commands was killed, and what it knew is lost")

// A Process is a running command. Kill may be called at any time; Wait once.
type Process struct {
	by   *net.UnixConn // the supervisor
	conn *net.UnixConn
	in   *json.Decoder
	pid  int
	kill sync.Once
}

// Start starts cmd, of which it takes path, arguments, directory and environment: in a process group of its own, with
// nothing to read, and output as both of its streams. The caller may close output after that. The error is that of
// [exec.Cmd.Start] if the command cannot be started.
func Start(cmd *exec.Cmd, output *os.File) (*Process, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, fmt.Errorf("make a socket for a command: %w", err)
	}
	defer func() { _ = theirs.Close() }() // the supervisor has its own
	conn, err := connOf(ours)
	if err != nil {
		return nil, err
	}
	p := &Process{conn: conn, in: json.NewDecoder(conn)}
	if err := p.start(cmd, theirs, output); err != nil {
		_ = conn.Close() // the supervisor drops the command with it
		return nil, err
	}
	return p, nil
}

func (p *Process) start(cmd *exec.Cmd, theirs, output *os.File) (err error) {
	if p.by, err = shared.send(theirs, output); err != nil {
		return err
	}
	_ = theirs.Close() // else a supervisor that is lost now would not be seen
	env := cmd.Env
	if env == nil {
		env = os.Environ()
	}
	if err := json.NewEncoder(p.conn).Encode(request{cmd.Path, cmd.Args, env, cmd.Dir}); err != nil {
		return p.lost()
	}
	var s started
	if err := p.in.Decode(&s); err != nil {
		return p.lost()
	}
	if s.Errno != 0 {
		return &os.PathError{Op: "fork/exec", Path: cmd.Path, Err: syscall.Errno(s.Errno)}
	}
	p.pid = s.PID
	return nil
}

// lost has the next command started by another supervisor.
func (p *Process) lost() error {
	shared.lost(p.by)
	return errLost
}

// Kill kills the process and everything it started that has not left its group.
func (p *Process) Kill() { p.kill.Do(func() { _ = p.conn.CloseWrite() }) } // fails only if the supervisor has ended

// Wait returns how the process ended. What it has started may still run.
func (p *Process) Wait() (syscall.WaitStatus, error) {
	defer func() { _ = p.conn.Close() }() // nothing else is said
	var e ended
	if err := p.in.Decode(&e); err != nil {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // fails only if nobody is left
		return 0, p.lost()
	}
	return syscall.WaitStatus(e.Status), nil
}

// socketpair makes two ends of a socket that programs to come do not inherit.
func socketpair() (ours, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range pair {
		syscall.CloseOnExec(fd)
	}
	return os.NewFile(uintptr(pair[0]), "command"), os.NewFile(uintptr(pair[1]), "command"), nil
}

// connOf makes a connection of an end of a socket, which it closes.
func connOf(f *os.File) (*net.UnixConn, error) {
	defer func() { _ = f.Close() }() // the connection has its own
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("%s is no unix socket", f.Name())
	}
	return unix, nil
}
