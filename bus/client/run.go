package client

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Result is what a run came to.
type Result struct {
	// RunID is the run's, "" where the input was dealt with by a hook and no run has seen it.
	RunID string
	// Seq is the sequence of the run's agent_end.
	Seq uint64
	// Reason is why it ended; ErrorMessage is for people, where it is not a normal end.
	Reason       schemas.TerminationReason
	ErrorMessage string
	// Reply is the model's last one, nil if there was none.
	Reply *schemas.AssistantMessage
	// Turns, Usage and Duration are those of the whole run. Cost is in US dollars, also part of Usage.
	Turns    int
	Usage    schemas.Usage
	Cost     float64
	Duration time.Duration
	// Handled says that a hook has dealt with the input, and no run was begun.
	Handled bool
}

// Text is the text of the reply, "" if there is none.
func (r Result) Text() string {
	if r.Reply == nil {
		return ""
	}
	return r.Reply.Content.JoinText()
}

// Run is the run of one input: the one that it began, or was queued for, or joined. It may be used concurrently, and
// any number of loops may follow it.
type Run struct {
	s  *Session
	id string
	at place // of the log before the command

	mu    sync.Mutex
	ended *ending // once it is known
}

// ending is how it has ended.
type ending struct {
	result Result
	err    error
}

// CommandID is the id of the command that the run belongs to.
func (r *Run) CommandID() string { return r.id }

// Session is the session that it is in.
func (r *Run) Session() *Session { return r.s }

// Items yields the command's own events and those of its run, with the updates, from the first to the run's agent_end.
// A run that the input joined is yielded from where it is taken in; what other runs do while it waits is left out. That
// the input was refused is the last thing yielded, as a [*RejectedError], that it was withdrawn a [*WithdrawnError].
func (r *Run) Items(ctx context.Context) iter.Seq2[Item, error] { return r.items(ctx, true) }

func (r *Run) items(ctx context.Context, updates bool) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		t := NewTracker(r.id)
		for item, err := range r.s.follow(ctx, &watcher{from: r.at.seq + 1, at: r.at, updates: updates}) {
			if err != nil {
				yield(Item{}, err)
				return
			}
			ours := t.Take(item)
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

// Wait waits for the end of the run and returns what it came to. A run that ended badly is no error: its Reason says
// so. That the input was refused is a [*RejectedError], that it was withdrawn a [*WithdrawnError].
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

func (r *Run) end() *ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}
