package cli

import (
	"errors"
	"fmt"
	"io"
)

// Exit statuses.
const (
	StatusOK          = 0
	StatusBad         = 1   // the command failed
	StatusUsage       = 2   // usage error; nothing was started
	StatusUnanswered  = 3   // a run waits for an approval that nobody here can give
	StatusInterrupted = 130 // ended by an interrupt, as shells report it
)

// UsageError reports mistakes in the command line, one per line.
type UsageError struct{ Err error }

// Error returns the mistakes.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the mistakes.
func (e UsageError) Unwrap() error { return e.Err }

// StatusError ends the program with a status. Err is printed; nil prints nothing.
type StatusError struct {
	Status int
	Err    error
}

// Error returns the text of Err.
func (e StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e StatusError) Unwrap() error { return e.Err }

// Exit prints the error that ended a program to stderr, and returns the program's exit status.
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
