package cli

import (
	"errors"
	"fmt"
	"io"
)

// Exit statuses.
const (
	StatusOK          = 0
	StatusBad         = 1   // what was asked for did not come about
	StatusUsage       = 2   // the command line is wrong, and nothing was started
	StatusUnanswered  = 3   // a run waits for an approval that nobody here can give
	StatusInterrupted = 130 // ended by an interrupt, as shells say it
)

// UsageError says that the command line is wrong. It may have several lines, one for each mistake.
type UsageError struct{ Err error }

// Error has the mistakes.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the mistakes.
func (e UsageError) Unwrap() error { return e.Err }

// StatusError ends the program with a status. Err is printed; without one, all has been said.
type StatusError struct {
	Status int
	Err    error
}

// Error is that of Err.
func (e StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e StatusError) Unwrap() error { return e.Err }

// Exit prints what ended a program to stderr and returns the status that the program ends with.
func Exit(program string, err error, stderr io.Writer) int {
	var status StatusError
	var usage UsageError
	switch {
	case err == nil || errors.Is(err, ErrHelp):
		return StatusOK
	case errors.As(err, &status):
		if status.Err != nil {
			fmt.Fprintf(stderr, "%s: %s\n", program, Visible(status.Err.Error()))
		}
		return status.Status
	}
	fmt.Fprintf(stderr, "%s: %s\n", program, Visible(err.Error()))
	if errors.As(err, &usage) {
		return StatusUsage
	}
	return StatusBad
}
