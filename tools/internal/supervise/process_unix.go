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

// errLost is the error of a command whose supervisor was killed. The command's process group is killed, too; processes
// that have left the group keep running.
var errLost = errors.New("the supervisor of commands was killed, and what it knew is lost")

// A Process is a running command. Kill may be called at any time; Wait once.
type Process struct {
	by   *net.UnixConn // the supervisor
	conn *net.UnixConn
	in   *json.Decoder
	pid  int
	kill sync.Once
}

// Start starts cmd in its own process group. It uses only the path, arguments, directory and environment of cmd:
// standard input is empty, and output is both standard output and standard error. The caller may close output after
// Start has returned. If the command cannot be started, the error is the one that [exec.Cmd.Start] would return.
func Start(cmd *exec.Cmd, output *os.File) (*Process, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, fmt.Errorf("make a socket for a command: %w", err)
	}
	defer func() { _ = theirs.Close() }() // the supervisor has a duplicate
	conn, err := connOf(ours)
	if err != nil {
		return nil, err
	}
	p := &Process{conn: conn, in: json.NewDecoder(conn)}
	if err := p.start(cmd, theirs, output); err != nil {
		_ = conn.Close() // makes the supervisor kill the command
		return nil, err
	}
	return p, nil
}

func (p *Process) start(cmd *exec.Cmd, theirs, output *os.File) (err error) {
	if p.by, err = shared.send(theirs, output); err != nil {
		return err
	}
	_ = theirs.Close() // while this end is open, the loss of the supervisor would not end the stream
	env := cmd.Env
	if env == nil {
		env = os.Environ()
	}
	if err := json.NewEncoder(p.conn).Encode(request{cmd.Path, cmd.Args, env, cmd.Dir}); err != nil {
		return p.supervisorLost()
	}
	var s started
	if err := p.in.Decode(&s); err != nil {
		return p.supervisorLost()
	}
	if s.Errno != 0 {
		return &os.PathError{Op: "fork/exec", Path: cmd.Path, Err: syscall.Errno(s.Errno)}
	}
	p.pid = s.PID
	return nil
}

// supervisorLost makes the next command start another supervisor. It returns errLost.
func (p *Process) supervisorLost() error {
	shared.replace(p.by)
	return errLost
}

// Kill kills the process and all processes that are still in its process group. It does nothing if they have ended.
func (p *Process) Kill() { p.kill.Do(func() { _ = p.conn.CloseWrite() }) } // fails only if the supervisor has ended

// Wait waits until the process ends and returns its status. Processes that it has started may still run.
func (p *Process) Wait() (syscall.WaitStatus, error) {
	defer func() { _ = p.conn.Close() }() // the status is the last message
	var e ended
	if err := p.in.Decode(&e); err != nil {
		killGroup(p.pid)
		return 0, p.supervisorLost()
	}
	return syscall.WaitStatus(e.Status), nil
}

// socketpair creates a connected pair of sockets. Child processes do not inherit them.
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

// connOf returns a connection for a socket, and closes f.
func connOf(f *os.File) (*net.UnixConn, error) {
	defer func() { _ = f.Close() }() // the connection has a duplicate
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
