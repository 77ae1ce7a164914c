package loop

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
)

// Origin names the session that this one is a copy of, and where the copy ends: at a sequence, or at an entry, which is
// in the copy or not.
type Origin struct {
	Session  string                 `json:"session"`
	Seq      uint64                 `json:"seq"`
	EntryID  string                 `json:"entryId,omitempty"`
	Position schemas.BranchPosition `json:"position,omitempty"`
	Text     string                 `json:"text,omitempty"` // of the entry before which the copy ends
}

// of reports whether the copy is the one that a command requests.
func (o *Origin) of(d *schemas.Branch) bool {
	if o.Session != d.Session || o.EntryID != d.EntryID {
		return false
	}
	if d.EntryID != "" {
		return cmp.Or(o.Position, schemas.BranchAt) == cmp.Or(d.Position, schemas.BranchAt)
	}
	return d.Seq == 0 || o.Seq == d.Seq
}

// begun reports whether the session has content that a copy would be mixed with.
func (s *State) begun() bool {
	return s.Runs > 0 || s.Run != nil || s.Tree.Leaf != "" || len(s.Messages) > 0 ||
		len(s.Prompts)+len(s.Steering)+len(s.FollowUp) > 0
}

// branch returns the events of a branch command after [schemas.SessionBranched] is in the log. The copy comes first, so
// that a process that dies between the two leaves nothing half-done.
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

// Branchable reports whether the session has not begun, so that a branch command still needs [State.Branched].
func (s *State) Branchable() bool { return s.Origin == nil && !s.begun() }

// Branched returns the event that makes another session a copy of this one. It leaves out a last reply that has calls
// without results, together with these results, so that the copy can be prompted.
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

// BranchedAt is [State.Branched] for a branch command that names an entry. The state is the one right after the entry's
// event, and path is the path to the entry. The error wraps [ErrNotAgain] if the copy is to end before an entry that is
// no user's message.
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

// complete returns the transcript without a last reply that has calls without results.
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
	s.Settings = s.Settings.With(d.Settings)
}

// With returns the settings after those that a copy takes over.
func (t Settings) With(taken []schemas.Setting) Settings {
	for _, setting := range taken {
		if data, err := schemas.DecodeCommandData(setting.Kind, orEmpty(setting.Data)); err == nil {
			t.apply(data)
		}
	}
	return t
}

// commands returns commands that make these settings.
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

// Path is the path to an entry: the id of its parent, and what a model gets of the path, up to and including the entry.
// Again is set for a user's message or a custom_message, which is to be written again; Text is its text.
type Path struct {
	ID, Parent string
	Entries    []Entry
	Again      bool
	Text       string
}

// before returns the path without the entry itself.
func (p *Path) before() []Entry {
	if n := len(p.Entries); n > 0 && p.Entries[n-1].ID == p.ID {
		return p.Entries[:n-1]
	}
	return p.Entries
}

// Enter folds the next event as [State.Apply] does. If the event has made the entry with this id it returns the path to
// it, else nil. The path shares the state's messages.
func (s *State) Enter(e schemas.Event, id string) (*Path, error) {
	at := s.Tree
	if err := s.Apply(e); err != nil {
		return nil, err
	}
	for _, n := range at.Apply(e) {
		if n.ID != id {
			continue
		}
		p := &Path{ID: id, Parent: n.Parent, Entries: s.Messages}
		for i := range s.Messages {
			// A compaction made here comes first in the context, and all of the context counts.
			if s.Messages[i].ID == id && (n.Type != schemas.EntryCompaction || id != entryID(e.Seq)) {
				p.Entries = s.Messages[:i+1]
			}
		}
		p.Text, p.Again = again(n.Message)
		return p, nil
	}
	return nil, nil
}

// again returns the text of a message that is written again when a navigation goes there.
func again(m schemas.Message) (text string, ok bool) {
	switch m := m.(type) {
	case *schemas.UserMessage:
		return joined(m.Content), true
	case *schemas.CustomMessage:
		var custom schemas.AddMessage
		if m.Role != compaction.RoleCustom || json.Unmarshal(m.Raw, &custom) != nil {
			return "", false
		}
		return joined(custom.Content), true
	}
	return "", false
}

// joined returns the text of the blocks, with nothing between them.
func joined(blocks schemas.Contents) (text string) {
	for _, b := range blocks {
		if t, ok := b.(schemas.Text); ok {
			text += t.Text
		}
	}
	return text
}

// fork returns the copy that a branch command with an entry requests, of the state right after the entry's event.
func (s *State) fork(p *Path, at schemas.BranchPosition) (*State, error) {
	before := *s
	before.Run, before.Messages = nil, p.Entries
	if cmp.Or(at, schemas.BranchAt) == schemas.BranchAt {
		return &before, nil
	}
	if n := len(p.Entries); n == 0 || p.Entries[n-1].Message.MessageRole() != schemas.RoleUser {
		return nil, ErrNotAgain
	}
	before.Messages = p.before()
	return &before, nil
}
