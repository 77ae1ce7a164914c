package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// ErrBusy is wrapped by the error of a prompt or continue that finds a run under way.
var ErrBusy = errors.New("agent is busy")

// RejectedError means that a command was rejected and changed nothing. Code is stable; Reason is for people.
type RejectedError struct {
	Kind   schemas.CommandKind
	Code   schemas.RejectCode
	Reason string
}

// Error returns the reason, for people.
func (e *RejectedError) Error() string { return e.Reason }

// Is reports whether target is [ErrBusy] and the command was rejected because the agent is busy.
func (e *RejectedError) Is(target error) bool {
	return target == ErrBusy && e.Code == schemas.RejectBusy
}

// Result is the outcome of a run.
type Result struct {
	Reason   schemas.TerminationReason // why it ended
	Messages schemas.Messages          // that it added to the transcript; they are shared, do not change them
	Reply    *schemas.AssistantMessage // the last reply among Messages; nil if there is none
	Turns    int
	Usage    schemas.Usage
	Duration time.Duration
}

// Text returns the text of the last reply.
func (r Result) Text() string {
	if r.Reply == nil {
		return ""
	}
	return r.Reply.Content.JoinText()
}

// RunError means that a run ended before the model was done: it failed or was aborted, or reached a limit. It wraps the
// cause of the context that aborted it.
type RunError struct {
	Reason  schemas.TerminationReason
	Message string // the error text, if there is one
	Cause   error
}

// Error returns why the run has ended.
func (e *RunError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("run ended: %s", e.Reason)
	}
	return fmt.Sprintf("run ended: %s: %s", e.Reason, e.Message)
}

// Unwrap returns the cause of the context that aborted the run, if one did.
func (e *RunError) Unwrap() error { return e.Cause }

// result returns the outcome of the newest run, with a [RunError] if the run ended before the model was done.
func (a *Agent) result(ctx context.Context) (r Result, err error) {
	a.d.View(func(s *loop.State) {
		end := s.LastEnd
		r = Result{
			Reason: end.TerminationReason, Messages: s.MessagesByID(end.Messages), Turns: end.Turns, Usage: end.Usage,
			Duration: schemas.Milliseconds(end.DurationMs),
		}
		for _, m := range r.Messages {
			if reply, ok := m.(*schemas.AssistantMessage); ok {
				r.Reply = reply
			}
		}
		switch end.TerminationReason {
		case schemas.EndNoToolCalls, schemas.EndTerminate, schemas.EndStopRequested:
		default:
			err = &RunError{Reason: end.TerminationReason, Message: end.ErrorMessage, Cause: context.Cause(ctx)}
		}
	})
	return r, err
}
