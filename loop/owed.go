package loop

import (
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Owed is an event that has to follow the command_accepted of a command. All events of a command are appended together,
// but a process may die between two of them, and the command is taken by then: so whoever goes on appends the rest.
type Owed struct {
	By   string              `json:"by"` // id of the command
	Type schemas.EventType   `json:"type"`
	ID   string              `json:"id"` // of the command that the event is about
	Kind schemas.CommandKind `json:"kind"`

	Resolved *schemas.ApprovalResolved `json:"resolved,omitempty"` // where it is one; ID is its call
}

// owing is what is owed and one more event.
func (s *State) owing(o Owed) []Owed { return append(slices.Clone(s.Owed), o) }

// owe notes what has to follow the command_accepted that is about to be applied: the same that [Accept] decided on.
func (s *State) owe(d *schemas.CommandAccepted, data schemas.CommandData) {
	events := Accept(s, schemas.Command{ID: d.CommandID, Session: s.Session, Source: d.Source, Data: data}, nil, Rules{})
	if len(events) < 2 {
		return
	}
	owed := slices.Clone(s.Owed)
	for _, e := range events[1:] {
		o := Owed{By: d.CommandID, Type: e.EventType()}
		switch e := e.(type) {
		case *schemas.CommandApplied:
			o.ID, o.Kind = e.CommandID, e.Kind
		case *schemas.CommandSuperseded:
			o.ID, o.Kind = e.CommandID, e.Kind
		case *schemas.CommandWithdrawn:
			o.ID, o.Kind = e.CommandID, e.Kind
		case *schemas.ApprovalResolved:
			o.ID, o.Resolved = string(e.Call), e
		}
		owed = append(owed, o)
	}
	s.Owed = owed
}

// paid notes that an event about a command is there.
func (s *State) paid(t schemas.EventType, id string) {
	if i := slices.IndexFunc(s.Owed, func(o Owed) bool { return o.Type == t && o.ID == id }); i >= 0 {
		s.Owed = slices.Delete(slices.Clone(s.Owed), i, i+1)
	}
}

// step appends the event.
func (o Owed) step() Emit {
	e := Emit{CausationID: o.By}
	switch o.Type {
	case schemas.EventCommandSuperseded:
		e.Data = &schemas.CommandSuperseded{CommandID: o.ID, Kind: o.Kind, By: o.By}
	case schemas.EventCommandWithdrawn:
		e.Data = &schemas.CommandWithdrawn{CommandID: o.ID, Kind: o.Kind, By: o.By}
	case schemas.EventApprovalResolved:
		e.Data = o.Resolved
	default:
		e.Data = &schemas.CommandApplied{CommandID: o.ID, Kind: o.Kind}
	}
	return e
}
