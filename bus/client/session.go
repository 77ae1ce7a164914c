package client

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Session is a handle of one session. It has no state and is safe for concurrent use.
type Session struct {
	c    *Client
	id   string
	room Room
}

// ID returns the session's id.
func (s *Session) ID() string { return s.id }

// Text returns an input that consists of plain text.
func Text(text string) schemas.Input { return schemas.Input{Text: text} }

// Prompt sends a prompt and returns a handle of its run: the run that the prompt starts or, depending on [WhenBusy],
// joins or waits for. Prompt returns once the server has stored the command; whether the session accepts it, is
// reported by the [Run].
func (s *Session) Prompt(ctx context.Context, in schemas.Input, opts ...Option) (*Run, error) {
	return s.sendTracked(ctx, &schemas.Prompt{Input: in}, opts)
}

// Steer sends an input that reaches the model before its next call. The returned [Run] is the one that takes the
// input in. If the session is idle, the input starts a run.
func (s *Session) Steer(ctx context.Context, in schemas.Input, opts ...Option) (*Run, error) {
	return s.sendTracked(ctx, &schemas.Steer{Input: in}, opts)
}

// FollowUp sends an input that reaches the model when the current run would otherwise end. If the session is idle,
// the input starts a run. The returned [Run] is the one that takes the input in.
func (s *Session) FollowUp(ctx context.Context, in schemas.Input, opts ...Option) (*Run, error) {
	return s.sendTracked(ctx, &schemas.FollowUp{Input: in}, opts)
}

// Continue starts a run from the transcript as it is, or from queued inputs, without a new input.
func (s *Session) Continue(ctx context.Context, opts ...Option) (*Run, error) {
	return s.sendTracked(ctx, &schemas.Continue{}, opts)
}

// Run returns a handle of the run that belongs to the command with the given id, whichever client sent it and when.
// It makes no request. If the session has not received the command yet, the methods of the [Run] wait for it.
func (s *Session) Run(commandID string) *Run { return &Run{s: s, id: commandID} }

// sendTracked sends a command and records the end of the log before it, so that the outcome is searched for from
// there. With an id chosen by the caller the command may have been sent earlier: then the search begins at the start
// of the log.
func (s *Session) sendTracked(ctx context.Context, data schemas.CommandData, opts []Option) (*Run, error) {
	var o sendOptions
	for _, opt := range opts {
		opt(&o)
	}
	var at position
	if o.id == "" && schemas.CheckSession(s.id) == nil {
		err := s.c.retry(ctx, func(ctx context.Context) (err error) {
			at, err = s.c.head(ctx, s.id)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("client: end of the log of session %s: %w", s.id, err)
		}
	}
	sent, err := s.Send(ctx, data, opts...)
	return &Run{s: s, id: sent.ID, at: at}, err
}

// Do sends a command and waits for its outcome. It returns a [*RejectedError] if the session refused the command, and
// a [*WithdrawnError] if the command was withdrawn before it had an effect. For an input, Do returns when the input
// enters the transcript; use [Session.Prompt], [Session.Steer] or [Session.FollowUp] to follow its run.
func (s *Session) Do(ctx context.Context, data schemas.CommandData, opts ...Option) error {
	_, err := s.do(ctx, data, opts)
	return err
}

// do is [Session.Do] for commands whose outcome carries a text.
func (s *Session) do(ctx context.Context, data schemas.CommandData, opts []Option) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.c.o.RequestTimeout)
	defer cancel()
	sent, err := s.sendTracked(ctx, data, opts)
	if err != nil {
		return "", err
	}
	w := &watcher{from: sent.at.seq + 1, at: sent.at}
	for item, err := range s.follow(ctx, w) {
		if err != nil {
			return "", fmt.Errorf("client: outcome of %s %s of session %s: %w", data.CommandKind(), sent.id, s.id, err)
		}
		if o := outcomeOf(item.Event, sent.id); o.err != nil || o.applied {
			return o.text, o.err
		}
	}
	return "", nil
}

// Abort ends the current run. If there is none, it returns a [*RejectedError] with [schemas.RejectNoRun].
func (s *Session) Abort(ctx context.Context, reason string, opts ...Option) error {
	return s.Do(ctx, &schemas.Abort{Reason: reason}, opts...)
}

// Approve lets a call that waits for approval execute; with [WithArgs], it executes with other arguments. asked is
// the request that was shown to the person or program that approves, from [Approval] or from the log. If a different
// call now waits under the same key, for instance because the session was deleted and started again, the session
// refuses the answer with [schemas.RejectStale] and the call keeps waiting. A request without a Digest approves
// whatever waits under its Call.
func (s *Session) Approve(ctx context.Context, asked schemas.ApprovalRequested, reason string, opts ...Option) error {
	return s.Do(ctx, &schemas.Approve{ApprovalAnswer: asked.Answer(reason)}, opts...)
}

// Deny refuses a call that waits for approval: the model receives an error result that contains the reason. asked has
// the meaning that it has for [Session.Approve].
func (s *Session) Deny(ctx context.Context, asked schemas.ApprovalRequested, reason string, opts ...Option) error {
	return s.Do(ctx, &schemas.Deny{ApprovalAnswer: asked.Answer(reason)}, opts...)
}

// Set changes a setting of the session. setting is one of the set_ commands, such as [schemas.SetModel] or
// [schemas.SetTools].
func (s *Session) Set(ctx context.Context, setting schemas.CommandData, opts ...Option) error {
	if kind := setting.CommandKind(); !strings.HasPrefix(string(kind), "set_") {
		return fmt.Errorf("client: set session %s: %s is not a set_ command", s.id, kind)
	}
	return s.Do(ctx, setting, opts...)
}

// History yields the events that the log holds now, beginning with sequence from (1 is the first). A session that has
// no log yields nothing. In a cluster the replica that answers may be a moment behind.
func (s *Session) History(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for item, err := range s.follow(ctx, &watcher{from: max(from, 1), stored: true}) {
			if err != nil {
				yield(schemas.Event{}, err)
				return
			}
			if !yield(*item.Event, nil) {
				return
			}
		}
	}
}
