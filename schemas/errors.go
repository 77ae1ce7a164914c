package schemas

import (
	"errors"
	"fmt"
)

// ErrConflict is wrapped by the error of an append that the log refused because another writer has extended the
// session. The caller has lost the session and must stop without another effect (docs/architecture.md).
var ErrConflict = errors.New("session extended by another writer")

// ErrLater is wrapped by the error of a delivery that has not failed: the process has no memory for the session now.
// The message is delivered again, however often that happens.
var ErrLater = errors.New("no memory for the session now")

// ErrTooLarge is wrapped by the error of a call that does not fit into any message, so that a retry does not help.
var ErrTooLarge = errors.New("too large for a message")

// ConflictError is an [ErrConflict] with its place: the event with the sequence Seq was refused, all before it are
// stored.
type ConflictError struct {
	Session string
	Seq     uint64
	Cause   error // what the store answered; may be nil
}

// Error names the session and the sequence.
func (e *ConflictError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("append session %s seq %d: %v", e.Session, e.Seq, ErrConflict)
	}
	return fmt.Sprintf("append session %s seq %d: %v: %v", e.Session, e.Seq, ErrConflict, e.Cause)
}

// Unwrap returns [ErrConflict] and the cause.
func (e *ConflictError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrConflict}
	}
	return []error{ErrConflict, e.Cause}
}
