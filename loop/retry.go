package loop

import (
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Retry tells the driver to wait until NotBefore and then to start the next turn by appending Then. Nothing else is to
// be done until then.
type Retry struct {
	NotBefore time.Time
	Then      schemas.EventData
}

func (Retry) step() {}

// textRetryCancelled is the final error of a retry that an abort cut short.
const textRetryCancelled = "Retry cancelled"

// Retrying is the state of a run's attempts to get a good reply.
type Retrying struct {
	Attempt   int       `json:"attempt"`
	NotBefore time.Time `json:"notBefore"`
	Waiting   bool      `json:"waiting,omitempty"` // until NotBefore
}

// nextAfterFailure returns the step after a turn whose reply failed, nil if the run ends with it: first retries, then
// the next model of the list.
func nextAfterFailure(s *State, r *Run, last *Outcome) Step {
	if !last.Failed || r.Failure != "" {
		return nil
	}
	policy, final := s.Config.Retry, last.Error
	switch {
	case last.Aborted || r.Abort != nil:
		final = textRetryCancelled
	case last.Reason == schemas.EndBudget || overTurns(s, r):
	case r.Retrying != nil && r.Retrying.Waiting:
		return Retry{NotBefore: r.Retrying.NotBefore, Then: &schemas.TurnStart{TurnIndex: r.Turns}}
	case s.nextAfterOverflow(r, last) != nil:
		return s.nextAfterOverflow(r, last)
	case last.Retryable && r.attempts() < policy.MaxRetries:
		n := r.attempts() + 1
		return Emit{Data: &schemas.AutoRetryStart{
			Attempt: n, MaxAttempts: policy.MaxRetries, DelayMs: policy.DelayMs(n), ErrorMessage: last.Error,
			MessageID: last.ReplyID,
		}}
	case r.Retrying == nil && r.Fallbacks < len(s.Config.Fallbacks):
		return Emit{Data: &schemas.ModelFallback{
			From: s.Config.Model, To: s.Config.Fallbacks[r.Fallbacks], ErrorMessage: last.Error, MessageID: last.ReplyID,
		}}
	}
	if r.Retrying != nil {
		return Emit{Data: &schemas.AutoRetryEnd{Attempt: r.Retrying.Attempt, FinalError: final}}
	}
	return nil
}

// Attempt returns the number of the retry that the next model call is, 0 if it is none.
func (s *State) Attempt() int {
	if s.Run == nil {
		return 0
	}
	return s.Run.attempts()
}

func (r *Run) attempts() int {
	if r.Retrying == nil {
		return 0
	}
	return r.Retrying.Attempt
}

// retryStart removes the failed reply from the transcript; the run's usage still includes it.
func (s *State) retryStart(r *Run, e time.Time, d *schemas.AutoRetryStart) {
	s.forget(r, d.MessageID)
	r.Retrying = &Retrying{
		Attempt: d.Attempt, NotBefore: schemas.After(e, d.DelayMs), Waiting: true,
	}
}

// retryEnd marks a failed turn as one that is not to be retried.
func (s *State) retryEnd(r *Run, d *schemas.AutoRetryEnd) {
	r.Retrying = nil
	if d.Success {
		s.ErrorMessage = ""
	} else if r.Last != nil {
		r.Last.Retryable = false
	}
}

// fallBack continues the run with another model, as after a turn that another turn must follow.
func (s *State) fallBack(r *Run, d *schemas.ModelFallback) {
	s.forget(r, d.MessageID)
	s.Config.Model = d.To
	r.Fallbacks++
	r.Last = &Outcome{Continue: true}
}

// forget removes a message from the transcript.
func (s *State) forget(r *Run, id string) {
	s.Messages = without(s.Messages, id)
	r.Context = without(r.Context, id)
	for i, added := range r.New {
		if added == id {
			r.New = append(r.New[:i:i], r.New[i+1:]...)
			break
		}
	}
}

func without(entries []Entry, id string) []Entry {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].ID == id {
			return append(entries[:i:i], entries[i+1:]...)
		}
	}
	return entries
}
