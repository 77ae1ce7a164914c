package loop

import (
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// Origin is the session that this one is a copy of, and the sequence up to which.
type Origin struct {
	Session string `json:"session"`
	Seq     uint64 `json:"seq"`
}

// begun reports whether something has happened in the session that a copy would be mixed with.
func (s *State) begun() bool {
	return s.Runs > 0 || s.Run != nil || len(s.Messages) > 0 || len(s.Prompts)+len(s.Steering)+len(s.FollowUp) > 0
}

// branch is what a branch command does once [SessionBranched] is in the log: that event comes first, so that a process
// that dies between the two leaves nothing half-done.
func (a acceptance) branch(d *schemas.Branch) []schemas.EventData {
	switch {
	case a.s.Origin != nil && a.s.Origin.Session == d.Session && (d.Seq == 0 || a.s.Origin.Seq == d.Seq):
		return a.applied()
	case a.s.Origin != nil:
		return a.rejected(schemas.RejectState, fmt.Sprintf("the session is a copy of session %s already", a.s.Origin.Session))
	case a.s.begun():
		return a.rejected(schemas.RejectState, "the session has begun already: branch into a new one")
	}
	return a.rejected(schemas.RejectNotFound, fmt.Sprintf("there is no session %s to copy", d.Session))
}

// Branchable reports whether a branch command still needs [Branched]: the session has not begun.
func (s *State) Branchable() bool { return s.Origin == nil && !s.begun() }

// Branched is the event that makes another session a copy of this one. A reply at the end that has calls without
// results is left out with them, so that the copy can be prompted.
func (s *State) Branched() *schemas.SessionBranched {
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
	return &schemas.SessionBranched{Session: s.Session, Seq: s.Seq, Messages: messages, Settings: s.Settings.commands()}
}

func (s *State) branch(d *schemas.SessionBranched) {
	if !s.Branchable() {
		return
	}
	s.Origin = &Origin{Session: d.Session, Seq: d.Seq}
	for i, m := range d.Messages {
		s.Messages = append(s.Messages, Entry{ID: fmt.Sprintf("b%d.%d", s.Seq, i), Message: schemas.AnyMessage{Message: m}})
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
