//go:build unix

// Package process runs the processes that a test kills, stops and freezes.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Command is a program to run.
type Command struct {
	Name string // for errors, and of its output file
	Path string
	Args []string
	Env  []string // all of it
	Dir  string
	Log  string // file that gets what it prints; appended to
}

// Process is a running program. All methods may be called concurrently.
type Process struct {
	cmd  *exec.Cmd
	name string
	done chan struct{}
}

// outputDelay is how long children of a killed process may hold its output open.
const outputDelay = time.Second

// Start runs a command. The caller has to see to its end.
func Start(c Command) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer log.Close() // the process has its own
	p := &Process{cmd: exec.Command(c.Path, c.Args...), name: c.Name, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = c.Env, c.Dir, log, log, outputDelay
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the state tells
	}()
	return p, nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says how the process ended, once Done is closed.
func (p *Process) Ended() string { return p.cmd.ProcessState.String() }

// Kill ends the process at once (SIGKILL) and returns when it is gone.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Terminate asks the process to end (SIGTERM).
func (p *Process) Terminate() error { return p.signal(syscall.SIGTERM) }

// Freeze takes all time from the process (SIGSTOP) until [Process.Thaw]. On Linux it returns when nothing of it runs.
func (p *Process) Freeze() error {
	err := p.signal(syscall.SIGSTOP)
	if err == nil {
		awaitStopped(p.cmd.Process.Pid, p.done)
	}
	return err
}

// Thaw lets a frozen process go on (SIGCONT).
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

// signal sends a signal; a process that has ended does not mind.
func (p *Process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %s: %w", p.name, s, err)
	}
	return nil
}
