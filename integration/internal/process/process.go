//go:build unix

// Package process starts processes that tests kill, stop and freeze.
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
	Name string // for errors
	Path string
	Args []string
	Env  []string // the complete environment
	Dir  string
	Log  string // file to which the output is appended
	// Group makes the program the leader of a new process group, which [Process.Kill] kills as a whole: for scripts, whose
	// commands would outlive them.
	Group bool
}

// Process is a running program. All methods may be called concurrently.
type Process struct {
	cmd   *exec.Cmd
	name  string
	group bool
	done  chan struct{}
}

// outputDelay is how long children of a killed process may keep its output open.
const outputDelay = time.Second

// Start starts a command. The caller has to end it.
func Start(c Command) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer log.Close() // the process has its own descriptor
	p := &Process{cmd: exec.Command(c.Path, c.Args...), name: c.Name, group: c.Group, done: make(chan struct{})}
	if c.Group {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = c.Env, c.Dir, log, log, outputDelay
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // ProcessState has the result
	}()
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended describes how the process ended. Call it only after Done is closed.
func (p *Process) Ended() string { return p.cmd.ProcessState.String() }

// Kill kills the process (SIGKILL), with its group if it leads one, and returns when it has ended.
func (p *Process) Kill() error {
	if p.group { // even if the leader has ended
		if err := syscall.Kill(-p.PID(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%s: kill its group: %w", p.name, err)
		}
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Terminate asks the process to end (SIGTERM).
func (p *Process) Terminate() error { return p.signal(syscall.SIGTERM) }

// Quit ends the process with SIGQUIT, on which a Go program prints the stacks of its goroutines, and returns when it
// has ended.
func (p *Process) Quit() error {
	if err := p.signal(syscall.SIGQUIT); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Freeze suspends the process (SIGSTOP) until [Process.Thaw]. On Linux it returns when all its threads are stopped.
func (p *Process) Freeze() error {
	err := p.signal(syscall.SIGSTOP)
	if err == nil {
		awaitStopped(p.cmd.Process.Pid, p.done)
	}
	return err
}

// Thaw resumes a frozen process (SIGCONT).
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

// signal sends a signal. It returns no error if the process has ended.
func (p *Process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: %s: %w", p.name, s, err)
	}
	return nil
}
