package loop

import (
	"cmp"
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// Origin is the session that this one is a copy of, and the sequence up to which; or the entry, and whether with it.
type Origin struct {
	Session  string                 `json:"session"`
	Seq      uint64                 `json:"seq"`
	EntryID  string                 `json:"entryId,omitempty"`
	Position schemas.BranchPosition `json:"position,omitempty"`
	Text     string                 `json:"text,omitempty"` // of the entry before which the copy ends
}

// of reports whether the copy is the one that the command asks for.
func (o *Origin) of(d *schemas.Branch) bool {
	if o.Session != d.Session || o.EntryID != d.EntryID {
		return false
	}
	if d.EntryID != "" {
		return cmp.Or(o.Position, schemas.BranchAt) == cmp.Or(d.Position, schemas.BranchAt)
	}
	return d.Seq == 0 || o.Seq == d.Seq
}

// begun reports whether something has happened in the session that a copy would be mixed with.
func (s *State) begun() bool {
	return s.Runs > 0 || s.Run != nil || s.Tree.Leaf != "" || len(s.Messages) > 0 ||
		len(s.Prompts)+len(s.Steering)+len(s.FollowUp) > 0
}

// branch is what a branch command does once [schemas.SessionBranched] is in the log: that event comes first, so that a
// process that dies between the two leaves nothing half-done.
func (a acceptance) branch(d *schemas.Branch) []schemas.EventData {
	switch {
	case a.s.Origin != nil && a.s.Origin.of(d):
		return a.accepted("", &schemas.CommandApplied{CommandID: a.c.ID, Kind: a.kind(), Text: a.s.Origin.Text})
	case a.s.Origin != nil:
		return a.rejected(schemas.RejectState, fmt.Sprintf("the session is a copy of session %s already", a.s.Origin.Session))
	case a.s.begun():
		return a.rejected(schemas.RejectState, "the session has begun already: branch into a new one")
	}
	return a.rejected(schemas.RejectNotFound, fmt.Sprintf("there is no session %s to copy", d.Session))
}

// Branchable reports whether a branch command still needs [State.Branched]: the session has not begun.
func (s *State) Branchable() bool { return s.Origin == nil && !s.begun() }

// Branched is the event that makes another session a copy of this one. A reply at the end that has calls without
// results is left out with them, so that the copy can be prompted.
func (s *State) Branched() *schemas.SessionBranched {
	d := &schemas.SessionBranched{Session: s.Session, Seq: s.Seq, Settings: s.Settings.commands()}
	d.Messages = s.complete()
	if s.Run == nil || !s.Run.Detached {
		for i := range d.Messages {
			if label := s.Labels[s.Messages[i].ID]; label != "" {
				d.Labels = append(d.Labels, schemas.CopiedLabel{Message: i, Label: label})
			}
		}
	}
	return d
}

// BranchedAt is [State.Branched] for a branch command that names an entry: the state is that of the entry's event, and
// the path the one to the entry. The error wraps [ErrNotAgain] where the copy is to end before an entry that is no
// user's message.
func (s *State) BranchedAt(p *Path, b *schemas.Branch) (*schemas.SessionBranched, error) {
	state, err := s.fork(p, b.Position)
	if err != nil {
		return nil, err
	}
	d := state.Branched()
	if d.EntryID, d.Position = b.EntryID, b.Position; b.Position == schemas.BranchBefore {
		d.Text = p.Text
	}
	return d, nil
}

// complete is the transcript without a reply at the end that has calls without results.
func (s *State) complete() schemas.Messages {
	messages := s.Transcript()
	open := make(map[string]bool)
	from := len(messages)
	for i, m := range messages {
		switch m := m.(type) {
		case *schemas.AssistantMessage:
			clear(open)
			if !m.Failed() {
				for _, call := range m.Content.ToolCalls() {
					open[call.ID] = true
				}
			}
			from = i
		case *schemas.ToolResultMessage:
			delete(open, m.ToolCallID)
		}
	}
	if len(open) > 0 {
		messages = messages[:from]
	}
	return messages
}

func (s *State) branch(d *schemas.SessionBranched) {
	if !s.Branchable() {
		return
	}
	s.Origin = &Origin{Session: d.Session, Seq: d.Seq, EntryID: d.EntryID, Position: d.Position, Text: d.Text}
	for i, m := range d.Messages {
		s.addEntry(outsideID("b", s.Seq, i), m)
	}
	for _, l := range d.Labels {
		if l.Message >= 0 && l.Message < len(d.Messages) {
			s.setLabel(&schemas.Label{TargetID: outsideID("b", s.Seq, l.Message), Label: l.Label})
		}
	}
	for _, setting := range d.Settings {
		if data, err := schemas.DecodeCommandData(setting.Kind, orEmpty(setting.Data)); err == nil {
			s.Settings.apply(data)
		}
	}
}

// commands are commands that make these settings.
func (t Settings) commands() (list []schemas.Setting) {
	add := func(data schemas.CommandData) {
		if raw, err := schemas.Marshal(data); err == nil {
			list = append(list, schemas.Setting{Kind: data.CommandKind(), Data: raw})
		}
	}
	if t.Model != nil {
		add(&schemas.SetModel{Model: *t.Model, Fallbacks: t.Fallbacks})
	}
	if t.ThinkingLevel != "" {
		add(&schemas.SetThinkingLevel{ThinkingLevel: t.ThinkingLevel})
	}
	if t.SystemPrompt != nil {
		add(&schemas.SetSystemPrompt{SystemPrompt: *t.SystemPrompt})
	}
	if t.ToolsSet {
		add(&schemas.SetTools{Tools: t.Tools})
	}
	modes := schemas.SetModes{
		SteeringMode: t.SteeringMode, FollowUpMode: t.FollowUpMode, ToolExecution: t.ToolExecution,
	}
	if modes != (schemas.SetModes{}) {
		add(&modes)
	}
	if t.Workspace != nil {
		add(&schemas.SetWorkspace{Workspace: *t.Workspace})
	}
	if t.Profile != "" {
		add(&schemas.SetProfile{Profile: t.Profile})
	}
	return list
}
