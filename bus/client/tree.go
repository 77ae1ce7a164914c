package client

import (
	"context"
	"encoding/json"

	"github.com/loopbus/loopbus/schemas"
)

// NavigateOptions say how [Session.Navigate] leaves what is left behind. Of an input to a model, Instructions are added
// to the model's instructions, or with ReplaceInstructions replace them.
type NavigateOptions struct {
	Summarize           bool   // a model sums up what is left behind
	Instructions        string // for the summary
	ReplaceInstructions bool
	Label               string // put on the summary, or, without one, on the target
}

// Navigate moves the leaf of the session's tree to an entry: what comes next follows that entry. An entry is named by
// the id of its message, such as m7, or as [Session.Tree] has it. Where it is a user's message, the leaf is the entry
// before it, and text is what the message says, to be written anew. While a run is under way it is refused with
// [schemas.RejectBusy].
//
// A summary takes as long as a model; [Options].RequestTimeout bounds the wait for it.
func (s *Session) Navigate(
	ctx context.Context,
	entry string,
	o NavigateOptions,
	opts ...Option,
) (text string, err error) {
	return s.do(ctx, &schemas.Navigate{TargetID: entry, Summarize: o.Summarize, CustomInstructions: o.Instructions,
		ReplaceInstructions: o.ReplaceInstructions, Label: o.Label}, opts)
}

// Label puts a label on an entry; an empty one takes it off.
func (s *Session) Label(ctx context.Context, entry, label string, opts ...Option) error {
	return s.Do(ctx, &schemas.Label{TargetID: entry, Label: label}, opts...)
}

// Name names the session, for people.
func (s *Session) Name(ctx context.Context, name string, opts ...Option) error {
	return s.Do(ctx, &schemas.Name{Name: name}, opts...)
}

// Custom adds an entry of an application's own, which no model is shown. Data is any JSON, nil for none.
func (s *Session) Custom(ctx context.Context, kind string, data json.RawMessage, opts ...Option) error {
	return s.Do(ctx, &schemas.Custom{CustomType: kind, Data: data}, opts...)
}

// CustomMessage adds a message of an application's own, which models are shown as a user's; no run begins. While a run
// is under way it is refused with [schemas.RejectBusy]; a [Session.Steer] reaches a run.
func (s *Session) CustomMessage(ctx context.Context, m schemas.AddMessage, opts ...Option) error {
	return s.Do(ctx, &m, opts...)
}

// Branch makes this session, which must not have begun, a copy of another one as far as its event seq, 0 for all of it.
func (s *Session) Branch(ctx context.Context, of string, seq uint64, opts ...Option) error {
	return s.Do(ctx, &schemas.Branch{Session: of, Seq: seq}, opts...)
}

// Fork makes this session, which must not have begun, a copy of another one: of the path to an entry, with it, or
// before it; then it has to be a user's message, and text is what that says.
func (s *Session) Fork(ctx context.Context, of, entry string, at schemas.BranchPosition, opts ...Option) (text string,
	err error) {
	return s.do(ctx, &schemas.Branch{Session: of, EntryID: entry, Position: at}, opts)
}

// Compact has the older part of the session's context summed up now; instructions say what the summary is to look at.
// That it was stopped by an abort is a [*RejectedError] with [schemas.RejectAborted], that the summary could not be
// made one with [schemas.RejectFailed]. It takes as long as a model; [Options].RequestTimeout bounds the wait for it.
func (s *Session) Compact(ctx context.Context, instructions string, opts ...Option) error {
	return s.Do(ctx, &schemas.Compact{CustomInstructions: instructions}, opts...)
}
