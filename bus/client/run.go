package client

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Result is the outcome of a run.
type Result struct {
	// RunID is the id of the run; "" if a hook handled the input and no run started.
	RunID string
	// Seq is the sequence of the run's agent_end event or, if Handled, of the event that ended the command.
	Seq uint64
	// Reason tells why the run ended. ErrorMessage explains an abnormal end to a person.
	Reason       schemas.TerminationReason
	ErrorMessage string
	// Reply is the model's last message; nil if there is none.
	Reply *schemas.AssistantMessage
	// Turns, Usage and Duration cover the whole run. Cost is in US dollars and repeats Usage.Cost.Total.
	Turns    int
	Usage    schemas.Usage
	Cost     float64
	Duration time.Duration
	// Handled reports whether a hook handled the input, so that no run started.
	Handled bool
}

// Text returns the text of the reply; "" if there is none.
func (r Result) Text() string {
	if r.Reply == nil {
		return ""
	}
	return r.Reply.Content.JoinText()
}

// Run is a handle of the run of one input: the run that the input started, waited for, or joined. It is safe for
// concurrent use, and any number of loops may follow it.
type Run struct {
	s  *Session
	id string
	at position // end of the log before the command

	mu    sync.Mutex
	ended *runEnd // nil until the outcome is known
}

// runEnd is the outcome of a run: a result, or the error that ended the command without one.
type runEnd struct {
	result Result
	err    error
}

// CommandID returns the id of the command that the run belongs to.
func (r *Run) CommandID() string { return r.id }

// Session returns the session of the run.
func (r *Run) Session() *Session { return r.s }

// Items yields the events of the command and of its run, with updates, up to and including the run's agent_end. If
// the input joined a run, Items begins where the run takes the input in. Events of other runs, in progress while the
// input waits, are left out. If the input was refused, the iterator ends with a [*RejectedError]; if it was
// withdrawn, with a [*WithdrawnError].
func (r *Run) Items(ctx context.Context) iter.Seq2[Item, error] { return r.items(ctx, true) }

func (r *Run) items(ctx context.Context, updates bool) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		t := NewTracker(r.id)
		for item, err := range r.s.follow(ctx, &watcher{from: r.at.seq + 1, at: r.at, updates: updates}) {
			if err != nil {
				yield(Item{}, err)
				return
			}
			ours := t.Observe(item)
			if t.ended != nil {
				r.mu.Lock()
				r.ended = t.ended
				r.mu.Unlock()
			}
			switch {
			case ours && !yield(item, nil):
				return
			case t.ended != nil && t.ended.err != nil:
				yield(Item{}, t.ended.err)
				return
			case t.ended != nil:
				return
			}
		}
	}
}

// Wait waits until the run ends and returns its result. A run that fails is not an error of Wait: see
// [Result].Reason. If the input was refused, Wait returns a [*RejectedError]; if it was withdrawn, a
// [*WithdrawnError].
func (r *Run) Wait(ctx context.Context) (Result, error) {
	if r.end() == nil {
		for _, err := range r.items(ctx, false) {
			if err != nil && r.end() == nil {
				return Result{}, fmt.Errorf("client: run of %s in session %s: %w", r.id, r.s.id, err)
			}
		}
	}
	end := r.end()
	return end.result, end.err
}

func (r *Run) end() *runEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}
