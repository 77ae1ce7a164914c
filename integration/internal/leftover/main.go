//go:build unix

// Command leftover runs a test binary and fails if that leaves a process behind: go test -exec leftover. Orphaned
// processes become its children, so it finds them without help from the tests. It works on Linux only.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/loopbus/loopbus/integration/internal/process"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "leftover:", err)
		os.Exit(1)
	}
	os.Exit(process.NothingLeft(code))
}

// run runs a program, forwards signals to it, and returns its exit code.
func run(words []string) (int, error) {
	if len(words) == 0 {
		return 0, errors.New("usage: leftover PROGRAM [ARGUMENT ...]")
	}
	if err := process.AdoptOrphans(); err != nil {
		return 0, err
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return 0, err
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 0, fmt.Errorf("%s: %s", words[0], cmd.ProcessState)
}
