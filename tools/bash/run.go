package bash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/loopbus/loopbus/tools/internal/jail"
	"github.com/loopbus/loopbus/tools/internal/supervise"
)

// ending is how a shell has ended: with an exit code, by a signal, or killed by this package.
type ending struct {
	code   int
	signal string
	killed bool
}

// run runs a command to completion and writes its output to w. A sandbox hides paths from it. When ctx ends, it kills
// the whole process group.
func (s shell) run(ctx context.Context, command, dir string, hide []string, w io.Writer) (ending, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return ending{}, fmt.Errorf("make a pipe for the output: %w", err)
	}
	defer func() { _ = reader.Close() }() // what it buffered has been read
	cmd, release, err := s.command(command, dir, hide)
	if err != nil {
		_ = writer.Close()
		return ending{}, err
	}
	if s.opts.Sandbox != SandboxNone { // a sandbox ends with the thread that has started it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	p, err := s.start(cmd, writer)
	_ = writer.Close() // the child has a duplicate
	release()
	if err != nil {
		return ending{}, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(onlyWriter{w}, reader) // returns when the last writer closes, or at the deadline below
	}()
	end, err := wait(ctx, p)
	// A process that keeps the output open continues to run, but its further output is dropped.
	_ = reader.SetReadDeadline(time.Now().Add(s.opts.Linger))
	<-copied
	return end, err
}

// process is a running shell. Kill kills its process group; it may be called until Wait has returned the status.
type process interface {
	Kill()
	Wait() (syscall.WaitStatus, error)
}

// supervised reports whether commands run below package supervise's process, which kills them when this process ends. A
// sandbox does not need it: it ends with the thread that has started it.
func (s shell) supervised() bool { return s.opts.Sandbox == SandboxNone && supervise.Available() }

// start starts a command with output as standard output and standard error.
func (s shell) start(cmd *exec.Cmd, output *os.File) (process, error) {
	if s.supervised() {
		return supervise.Start(cmd, output)
	}
	if s.opts.Sandbox != SandboxNone {
		if err := jail.Lend(output); err != nil {
			return nil, fmt.Errorf("give the output's pipe to the sandbox: %w", err)
		}
	}
	cmd.Stdout, cmd.Stderr = output, output
	if cmd.SysProcAttr == nil { // a sandbox has its own session
		ownGroup(cmd)
	}
	return child{cmd}, cmd.Start()
}

// child is a shell whose parent is this process.
type child struct{ *exec.Cmd }

func (c child) Kill() { killGroup(c.Cmd) }

func (c child) Wait() (status syscall.WaitStatus, err error) {
	if err = c.Cmd.Wait(); errors.As(err, new(*exec.ExitError)) {
		err = nil
	}
	if err == nil {
		status = c.ProcessState.Sys().(syscall.WaitStatus)
	}
	return status, err
}

// wait waits for the shell. If ctx ends first, it kills the shell's process group.
func wait(ctx context.Context, p process) (ending, error) {
	type result struct {
		status syscall.WaitStatus
		err    error
	}
	exited := make(chan result, 1)
	go func() {
		status, err := p.Wait()
		exited <- result{status, err}
	}()
	var r result
	killed := false
	select {
	case r = <-exited:
	case <-ctx.Done():
		killed = true
		p.Kill()
		r = <-exited
	}
	if r.err != nil {
		return ending{killed: killed}, r.err
	}
	end := ending{code: r.status.ExitStatus(), killed: killed}
	if r.status.Signaled() {
		end.signal = r.status.Signal().String()
	}
	return end, nil
}

// onlyWriter hides the other methods of a writer, so that io.Copy uses its own buffer.
type onlyWriter struct{ io.Writer }
