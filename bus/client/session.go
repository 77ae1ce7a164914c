package client

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Session is a handle of one session. It holds nothing and may be used concurrently.
type Session struct {
	c  *Client
	id string
}

// ID is the session's id.
func (s *Session) ID() string { return s.id }

// Text is an input of plain text.
func Text(text string) schemas.Input { return schemas.Input{Text: text} }

// Prompt sends a prompt and returns its run: the one that it begins, or waits for, or, with [WhenBusy], joins. Whether
// the session takes the prompt is the run's to say.
func (s *Session) Prompt(ctx context.Context, in schemas.Input, opts ...Option) (*Run, error) {
	return s.sendAt(ctx, &schemas.Prompt{Input: in}, opts)
}

// Steer sends an input that reaches the model before its next call. The run is the one that takes it in, and begins
// with it where the session is idle.
func (s *Session) Steer(ctx context.Context, in schemas.Input, opts ...Option) (*Run, error) {
	return s.sendAt(ctx, &schemas.Steer{Input: in}, opts)
}

// FollowUp sends an input that reaches the model when the run would end. The run is as [Session.Steer] has it.
func (s *Session) FollowUp(ctx context.Context, in schemas.Input, opts ...Option) (*Run, error) {
	return s.sendAt(ctx, &schemas.FollowUp{Input: in}, opts)
}

// Continue starts a run from the transcript as it is, or from what is queued.
func (s *Session) Continue(ctx context.Context, opts ...Option) (*Run, error) {
	return s.sendAt(ctx, &schemas.Continue{}, opts)
}

// Run returns the run of an input that has been sent, by anybody at any time, by the id of its command. It makes no
// request; a command that the session has not had is waited for.
func (s *Session) Run(commandID string) *Run { return &Run{s: s, id: commandID} }

// sendAt sends a command and remembers how far the log was before, so that its outcome is looked for from there.
func (s *Session) sendAt(ctx context.Context, data schemas.CommandData, opts []Option) (*Run, error) {
	var o sending
	for _, opt := range opts {
		opt(&o)
	}
	var at place
	if o.id == "" && schemas.CheckSession(s.id) == nil {
		err := s.c.persist(ctx, func(ctx context.Context) (err error) {
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

// Do sends a command and waits for its outcome. That it was refused is a [*RejectedError], that it was withdrawn
// before it had an effect a [*WithdrawnError]. An input has its outcome when it enters the transcript; [Session.Prompt]
// and its like follow it further.
func (s *Session) Do(ctx context.Context, data schemas.CommandData, opts ...Option) error {
	_, err := s.do(ctx, data, opts)
	return err
}

// do is [Session.Do] for commands whose outcome has a text.
func (s *Session) do(ctx context.Context, data schemas.CommandData, opts []Option) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.c.o.RequestTimeout)
	defer cancel()
	sent, err := s.sendAt(ctx, data, opts)
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

// Abort ends the run under way. Without one it is refused with [schemas.RejectNoRun].
func (s *Session) Abort(ctx context.Context, reason string, opts ...Option) error {
	return s.Do(ctx, &schemas.Abort{Reason: reason}, opts...)
}

// Approve lets a call be executed that waits for approval, which [Approval] names; with [WithArgs], with other
// arguments than it has.
func (s *Session) Approve(ctx context.Context, call schemas.CallKey, reason string, opts ...Option) error {
	return s.Do(ctx, &schemas.Approve{ApprovalAnswer: schemas.ApprovalAnswer{Call: call, Reason: reason}}, opts...)
}

// Deny has a call that waits for approval answered with an error that says the reason.
func (s *Session) Deny(ctx context.Context, call schemas.CallKey, reason string, opts ...Option) error {
	return s.Do(ctx, &schemas.Deny{ApprovalAnswer: schemas.ApprovalAnswer{Call: call, Reason: reason}}, opts...)
}

// Set changes a setting of the session: one of the set_ commands, such as [schemas.SetModel] or [schemas.SetTools].
func (s *Session) Set(ctx context.Context, setting schemas.CommandData, opts ...Option) error {
	if kind := setting.CommandKind(); !strings.HasPrefix(string(kind), "set_") {
		return fmt.Errorf("client: %s is not a setting of session %s", kind, s.id)
	}
	return s.Do(ctx, setting, opts...)
}

// History yields the events of the log from sequence from, 1 for the first, as far as there are any now. A session that
// has not begun has none.
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
