// Package view presents a session's state in the terms of queries, for clients that have not folded its log themselves.
package view

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// The lengths at which a view cuts texts, in characters.
const (
	maxInput = 240
	maxError = 4096
)

// A Log is the log of a session, for reading. Snapshot returns the newest state saved under a version of the fold and
// its sequence, 0 if there is none. Read yields the events from a sequence on; an error is the last item.
type Log interface {
	Snapshot(ctx context.Context, version int) (state []byte, seq uint64, err error)
	Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error]
}

// View is a session's state at a sequence. Later events do not change it.
type View struct{ state *loop.State }

// Of returns the view of a state, which must not change any more.
func Of(state *loop.State) *View { return &View{state} }

// Load returns the view of the state that a session's log folds to, as [Fold] does.
func Load(ctx context.Context, session string, log Log) (*View, error) {
	state, err := Fold(ctx, session, log)
	if err != nil {
		return nil, err
	}
	return Of(state), nil
}

// Fold folds a session's log, from its snapshot if there is one. A session without a log has sequence 0. The caller
// owns the state.
func Fold(ctx context.Context, session string, log Log) (*loop.State, error) {
	state := &loop.State{Session: session}
	raw, seq, err := log.Snapshot(ctx, loop.FoldVersion)
	if err != nil {
		return nil, err
	}
	if seq > 0 && (json.Unmarshal(raw, state) != nil || state.Seq != seq) {
		state = &loop.State{Session: session} // an unusable snapshot counts as none
	}
	for e, err := range log.Read(ctx, state.Seq+1) {
		if err == nil {
			err = state.Apply(e)
		}
		if err != nil {
			return nil, fmt.Errorf("session %s after seq %d: %w", session, state.Seq, err)
		}
	}
	return state, nil
}

// Seq returns the sequence of the newest event.
func (v *View) Seq() uint64 { return v.state.Seq }

// Messages returns how many messages the transcript has.
func (v *View) Messages() int { return len(v.state.Messages) }

// Message returns the nth message of the transcript, from 0, and its id.
func (v *View) Message(n int) (id string, m schemas.Message) {
	e := v.state.Messages[n]
	return e.ID, e.Message.Message
}

// Find returns the index of the message with an id in the transcript, or -1.
func (v *View) Find(id string) int {
	return slices.IndexFunc(v.state.Messages, func(e loop.Entry) bool { return e.ID == id })
}

// Tools returns the tools of the newest run.
func (v *View) Tools() []schemas.ToolDefinition { return v.state.Config.Tools }

// State returns what the session is doing.
func (v *View) State() schemas.SessionState {
	s := v.state
	out := schemas.SessionState{
		Session: s.Session, Seq: s.Seq, Status: v.status(), ThinkingLevel: s.Config.ThinkingLevel,
		Profile: s.Config.Profile, Workspace: s.Config.Workspace, Messages: len(s.Messages), Runs: s.Runs,
		Prompts: inputs(s.Prompts), Steering: inputs(s.Steering), FollowUp: inputs(s.FollowUp),
		Name: s.Name, Leaf: s.Tree.Leaf, Usage: s.Usage, ErrorMessage: cut(s.ErrorMessage, maxError),
	}
	if s.Runs > 0 {
		out.Model = new(s.Config.Model)
	} else {
		chosen(&out, s.Settings)
	}
	if s.Run != nil {
		out.Run = run(s.Run)
	}
	if s.LastEnd != nil {
		end := *s.LastEnd
		end.Messages, end.ErrorMessage = nil, cut(end.ErrorMessage, maxError)
		out.LastEnd = &end
	}
	out.ContextUsage, out.Compacting = s.ContextUsage(), s.Run == nil && s.Busy() || s.Compacting != nil
	if s.Origin != nil {
		out.Parent = &schemas.SessionParent{Session: s.Origin.Session, Seq: s.Origin.Seq}
	}
	if s.Parent != nil {
		out.Parent = s.Parent.Link.SessionParent()
	}
	return out
}

// chosen returns what a session's settings choose before its first run.
func chosen(out *schemas.SessionState, set loop.Settings) {
	out.Model, out.ThinkingLevel, out.Profile = set.Model, set.ThinkingLevel, set.Profile
	if set.Workspace != nil {
		out.Workspace = *set.Workspace
	}
}

func (v *View) status() schemas.SessionStatus {
	s := v.state
	switch {
	case len(v.waiting()) > 0:
		return schemas.SessionWaitingForApproval
	case len(s.PendingToolCalls()) > 0:
		return schemas.SessionWaitingForTools
	case s.Busy():
		return schemas.SessionRunning
	case s.LastEnd != nil && s.LastEnd.TerminationReason.Failed():
		return schemas.SessionFailed
	}
	return schemas.SessionIdle
}

func run(r *loop.Run) *schemas.RunState {
	out := &schemas.RunState{
		ID: r.ID, CommandID: r.Command, Started: r.StartedAt, Turns: r.Turns, Aborting: r.Abort != nil,
		Retrying: r.Retrying != nil && r.Retrying.Waiting, Usage: r.Usage,
	}
	t := r.Turn
	if t == nil {
		return out
	}
	out.Turns++ // the turn under way
	out.TurnID, out.Streaming = t.ID, t.Streaming
	for i := range t.Calls {
		c := &t.Calls[i]
		out.Calls = append(out.Calls, schemas.CallState{
			Call: c.Key, ToolCallID: c.ToolCall.ID, ToolName: c.ToolCall.Name, Started: c.StartedAt,
			Waiting: c.AwaitsApproval(), Ended: c.End != nil, IsError: c.End != nil && c.End.IsError,
		})
	}
	return out
}

func inputs(queue []loop.Input) (list []schemas.QueuedInput) {
	for _, in := range queue {
		q := schemas.QueuedInput{CommandID: in.CommandID, Kind: in.Kind}
		for _, m := range in.Messages {
			if user, ok := m.(*schemas.UserMessage); ok {
				q.Text = cut(user.Content.JoinText(), maxInput)
				break
			}
		}
		list = append(list, q)
	}
	return list
}

// waiting returns the calls that wait for approval.
func (v *View) waiting() (calls []*loop.Call) {
	if v.state.Run == nil || v.state.Run.Turn == nil {
		return nil
	}
	all := v.state.Run.Turn.Calls
	for i := range all {
		if all[i].AwaitsApproval() {
			calls = append(calls, &all[i])
		}
	}
	return calls
}

// cut returns at most the first n characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n--; n < 0 {
			return strings.ToValidUTF8(s[:i], "\uFFFD")
		}
	}
	return s
}
