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

// RejectedError says that a command was refused and changed nothing. Code is stable; Reason is for people.
type RejectedError struct {
	Kind   schemas.CommandKind
	Code   schemas.RejectCode
	Reason string
}

// Error is the reason, for people.
func (e *RejectedError) Error() string { return e.Reason }

// Is reports whether target is [ErrBusy] and that is why.
func (e *RejectedError) Is(target error) bool {
	return target == ErrBusy && e.Code == schemas.RejectBusy
}

// Result is what a run came to.
type Result struct {
	Reason   schemas.TerminationReason // why it ended
	Messages schemas.Messages          // that it added to the transcript; they are shared, do not change them
	Reply    *schemas.AssistantMessage // the last of them that is a reply; nil if there is none
	Turns    int
	Usage    schemas.Usage
	Duration time.Duration
}

// Text is the text of the last reply.
func (r Result) Text() string {
	if r.Reply == nil {
		return ""
	}
	return r.Reply.Content.JoinText()
}

// RunError says that a run has ended before the model was done: it failed or was aborted, or a limit was reached. It
// wraps the cause of the context that aborted it.
type RunError struct {
	Reason  schemas.TerminationReason
	Message string // what went wrong, where something did
	Cause   error
}

// Error says why the run has ended.
func (e *RunError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("run ended: %s", e.Reason)
	}
	return fmt.Sprintf("run ended: %s: %s", e.Reason, e.Message)
}

// Unwrap returns the cause of the context that aborted the run, if one did.
func (e *RunError) Unwrap() error { return e.Cause }

// result is what the newest run has come to. The error is a [RunError] where that is no good end.
func (a *Agent) result(ctx context.Context) (r Result, err error) {
	a.d.View(func(s *loop.State) {
		end := s.LastEnd
		r = Result{
			Reason: end.TerminationReason, Messages: s.MessagesByID(end.Messages), Turns: end.Turns, Usage: end.Usage,
			Duration: time.Duration(end.DurationMs) * time.Millisecond,
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
