package bash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// ending is how a shell ended: by itself with a code, by a signal, or killed by us.
type ending struct {
	code   int
	signal string
	killed bool
}

// run runs a command to its end and writes its output to w. When ctx ends, the whole process group is killed.
func (s shell) run(ctx context.Context, command, dir string, w io.Writer) (ending, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return ending{}, fmt.Errorf("make a pipe for the output: %w", err)
	}
	defer func() { _ = reader.Close() }() // what it held has been read
	cmd, err := s.command(command, dir)
	if err != nil {
		_ = writer.Close()
		return ending{}, err
	}
	cmd.Stdout, cmd.Stderr = writer, writer
	if s.opts.Sandbox != SandboxNone { // it ends with the thread that has started it
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	err = cmd.Start()
	_ = writer.Close() // the child has its own
	if err != nil {
		return ending{}, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(onlyWriter{w}, reader) // ends with the last writer or the deadline below
	}()
	killed, err := wait(ctx, cmd)
	// A process that holds the output open keeps running, but nobody waits for what it writes.
	_ = reader.SetReadDeadline(time.Now().Add(s.opts.Linger))
	<-copied
	return endingOf(cmd, killed), err
}

// wait waits for the shell, and kills its group when ctx ends first.
func wait(ctx context.Context, cmd *exec.Cmd) (killed bool, err error) {
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case err = <-exited:
	case <-ctx.Done():
		killed = true
		killGroup(cmd)
		err = <-exited
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return killed, nil
	}
	return killed, err
}

func endingOf(cmd *exec.Cmd, killed bool) ending {
	if cmd.ProcessState == nil {
		return ending{killed: killed}
	}
	return ending{code: cmd.ProcessState.ExitCode(), signal: signalOf(cmd.ProcessState), killed: killed}
}

// onlyWriter hides other methods of a writer, so that io.Copy reads in pieces of its own.
type onlyWriter struct{ io.Writer }
