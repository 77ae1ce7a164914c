package client

import (
	"context"
	"encoding/json"

	"github.com/loopbus/loopbus/schemas"
)

// NavigateOptions configures what [Session.Navigate] does with the branch that it leaves. Instructions are added to
// the instructions for the summary; with ReplaceInstructions they replace them.
type NavigateOptions struct {
	Summarize           bool   // summarize the branch that is left
	Instructions        string // for the summary
	ReplaceInstructions bool
	Label               string // label of the summary or, without one, of the target
}

// Navigate moves the leaf of the session's tree to an entry, so that whatever is added next follows that entry. entry
// is the id of a message, such as m7, or an entry id from [Session.Tree]. If it is a user's message, the leaf becomes
// the entry before it, and Navigate returns the text of the message, to be edited and sent again. While a run is in
// progress it returns a [*RejectedError] with [schemas.RejectBusy].
//
// A summary needs a model call; [Options].RequestTimeout limits the wait for it.
func (s *Session) Navigate(
	ctx context.Context,
	entry string,
	o NavigateOptions,
	opts ...Option,
) (text string, err error) {
	return s.do(ctx, &schemas.Navigate{TargetID: entry, Summarize: o.Summarize, CustomInstructions: o.Instructions,
		ReplaceInstructions: o.ReplaceInstructions, Label: o.Label}, opts)
}

// Label sets the label of an entry; an empty label removes it.
func (s *Session) Label(ctx context.Context, entry, label string, opts ...Option) error {
	return s.Do(ctx, &schemas.Label{TargetID: entry, Label: label}, opts...)
}

// Name sets the session's display name.
func (s *Session) Name(ctx context.Context, name string, opts ...Option) error {
	return s.Do(ctx, &schemas.Name{Name: name}, opts...)
}

// Custom appends an application-defined entry, which models do not see. data is any JSON, nil for none.
func (s *Session) Custom(ctx context.Context, kind string, data json.RawMessage, opts ...Option) error {
	return s.Do(ctx, &schemas.Custom{CustomType: kind, Data: data}, opts...)
}

// CustomMessage appends an application-defined message, which models see as a user's message. It starts no run. While
// a run is in progress it returns a [*RejectedError] with [schemas.RejectBusy]; use [Session.Steer] to reach that
// run.
func (s *Session) CustomMessage(ctx context.Context, m schemas.AddMessage, opts ...Option) error {
	return s.Do(ctx, &m, opts...)
}

// Branch makes this session, which must not have started, a copy of session of up to and including event seq; 0
// copies all of it.
func (s *Session) Branch(ctx context.Context, of string, seq uint64, opts ...Option) error {
	return s.Do(ctx, &schemas.Branch{Session: of, Seq: seq}, opts...)
}

// Fork makes this session, which must not have started, a copy of the path to an entry of session of. The position
// selects whether the copy includes the entry or ends before it; in the latter case the entry must be a user's
// message, whose text Fork returns.
func (s *Session) Fork(ctx context.Context, of, entry string, at schemas.BranchPosition, opts ...Option) (text string,
	err error) {
	return s.do(ctx, &schemas.Branch{Session: of, EntryID: entry, Position: at}, opts)
}

// Compact summarizes the older part of the session's context now; instructions tell the model what to focus on. It
// returns a [*RejectedError] with [schemas.RejectAborted] if an abort stopped it, and with [schemas.RejectFailed] if
// no summary could be made. It needs a model call; [Options].RequestTimeout limits the wait for it.
func (s *Session) Compact(ctx context.Context, instructions string, opts ...Option) error {
	return s.Do(ctx, &schemas.Compact{CustomInstructions: instructions}, opts...)
}
