package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
)

// Tree is the place of a session's next entry: below Leaf, the newest entry of the path; "" is the root. It is a fold
// of its own that needs only the events of a legal log; for any other log its result is undefined.
type Tree struct {
	Leaf   string `json:"leaf,omitempty"`
	Before string `json:"before,omitempty"` // the leaf before the newest entry was added; "" after a move
}

// Node is an entry of a session's tree: a child of Parent, or a root. Message is the entry's message on the path, nil
// for an entry that models do not get. Seq is the sequence of its event.
type Node struct {
	ID, Parent string
	Seq        uint64
	Type       schemas.TreeEntryType
	CustomType string
	Message    schemas.Message
}

// entryID returns the id of the entry that an event with this sequence makes, unless the entry has a message's id.
func entryID(seq uint64) string { return fmt.Sprintf("e%d", seq) }

// EntrySeq returns the sequence in an entry's id: that of its event or, for a message, of its message_start. It returns
// false for a text that is no id.
func EntrySeq(id string) (seq uint64, ok bool) {
	if len(id) < 2 {
		return 0, false
	}
	digits, _, _ := strings.Cut(id[1:], ".")
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil && seq > 0
}

// Apply folds an event and returns the entries that it adds, in the order of the path.
func (t *Tree) Apply(e schemas.Event) []Node {
	n := Node{ID: entryID(e.Seq), Seq: e.Seq}
	switch d := e.Data.(type) {
	case *schemas.MessageEnd:
		if d.Interrupted {
			return nil
		}
		n.ID, n.Type, n.Message = d.MessageID, schemas.EntryMessage, d.Message.Message
	case *schemas.Custom:
		n.Type, n.CustomType = schemas.EntryCustom, d.CustomType
	case *schemas.AddMessage:
		n.Type, n.CustomType, n.Message = schemas.EntryCustomMessage, d.CustomType, customMessage(e, d)
	case *schemas.Leaf:
		t.Leaf, t.Before = d.LeafID, ""
		if d.Summary == nil {
			return nil
		}
		n.Type, n.Message = schemas.EntryBranchSummary, branchSummary(e, d.Summary)
	case *schemas.SessionBranched:
		return t.root(e.Seq, "b", d.Messages)
	case *schemas.TranscriptReplaced:
		return t.root(e.Seq, "x", d.Messages)
	case *schemas.AutoRetryStart:
		t.forget(d.MessageID)
		return nil
	case *schemas.CompactionStart:
		t.forget(d.MessageID)
		return nil
	case *schemas.CompactionEnd:
		if d.ErrorMessage != "" || d.Aborted {
			return nil
		}
		n.Type, n.Message = schemas.EntryCompaction, compactionSummary(e, d)
	case *schemas.ModelFallback:
		t.forget(d.MessageID)
		return nil
	default:
		return nil
	}
	t.add(&n)
	return []Node{n}
}

func (t *Tree) add(n *Node) {
	n.Parent = t.Leaf
	t.Before, t.Leaf = t.Leaf, n.ID
}

// root starts a path with messages that come from outside the session.
func (t *Tree) root(seq uint64, letter string, messages schemas.Messages) []Node {
	*t = Tree{}
	nodes := make([]Node, len(messages))
	for i, m := range messages {
		nodes[i] = Node{ID: outsideID(letter, seq, i), Seq: seq, Type: entryType(m), Message: m}
		t.add(&nodes[i])
	}
	return nodes
}

// outsideID returns the id of the nth message that an event has brought from outside the session.
func outsideID(letter string, seq uint64, n int) string {
	return fmt.Sprintf("%s%d.%d", letter, seq, n)
}

func entryType(m schemas.Message) schemas.TreeEntryType {
	switch m.MessageRole() {
	case compaction.RoleCustom:
		return schemas.EntryCustomMessage
	case compaction.RoleBranchSummary:
		return schemas.EntryBranchSummary
	case compaction.RoleCompactionSummary:
		return schemas.EntryCompaction
	}
	return schemas.EntryMessage
}

// forget removes a reply that is retried from the path, if nothing was put below it. The reply stays in the tree, and
// the next one becomes its sibling.
func (t *Tree) forget(id string) {
	if t.Leaf == id && id != "" {
		t.Leaf, t.Before = t.Before, ""
	}
}

// customMessage returns the message of a custom_message on the path.
func customMessage(e schemas.Event, d *schemas.AddMessage) schemas.Message {
	content, err := schemas.Marshal(d.Content)
	if err != nil {
		content = nil // blocks that were never validated
	}
	return compaction.CustomMessage(d.CustomType, content, d.Display, d.Details, unixMilli(e.Time))
}

// branchSummary returns the message of a branch's summary on the path.
func branchSummary(e schemas.Event, d *schemas.BranchSummary) schemas.Message {
	return made(struct {
		Role schemas.Role `json:"role"`
		schemas.BranchSummary
		Timestamp int64 `json:"timestamp,omitempty"`
	}{compaction.RoleBranchSummary, *d, unixMilli(e.Time)}, compaction.RoleBranchSummary)
}

func made(v any, role schemas.Role) schemas.Message {
	raw, err := schemas.Marshal(v)
	if err != nil { // details that were never validated
		raw = json.RawMessage(`{"role":"` + string(role) + `"}`)
	}
	return &schemas.CustomMessage{Role: role, Raw: raw}
}

// MaxLabels is how many entries of a session may have a label.
const MaxLabels = 1000

// moveLeaf folds a move of the leaf; the label and the outcome of its command are then owed.
func (s *State) moveLeaf(e schemas.Event, d *schemas.Leaf) {
	keep := 0
	for i := range s.Messages {
		if s.Messages[i].ID == d.Keep {
			keep = i + 1
		}
	}
	s.Messages = slices.Clone(s.Messages[:keep]) // without the rest in its array
	for _, m := range d.Entries {
		s.Messages = append(s.Messages, Entry(m))
	}
	label := d.TargetID
	if d.Summary != nil {
		label = entryID(e.Seq)
		s.Messages = append(s.Messages, Entry{ID: label, Message: schemas.AnyMessage{Message: branchSummary(e, d.Summary)}})
	}
	n := s.Navigating
	if n == nil {
		return
	}
	s.Navigating = nil
	if text := n.label(); text != "" {
		raw, _ := schemas.Marshal(&schemas.Label{TargetID: label, Label: text}) // two strings always encode
		s.Owed = s.owing(Owed{
			By: n.CommandID, Type: schemas.EventLabel, ID: n.CommandID, Kind: schemas.CommandNavigate, Data: raw,
		})
	}
	s.Owed = s.owing(Owed{
		By: n.CommandID, Type: schemas.EventCommandApplied, ID: n.CommandID, Kind: schemas.CommandNavigate, Text: d.Text,
	})
}

func (s *State) setLabel(d *schemas.Label) {
	if d.Label == "" {
		delete(s.Labels, d.TargetID)
		return
	}
	if s.Labels == nil {
		s.Labels = make(map[string]string)
	}
	s.Labels[d.TargetID] = d.Label
}

// addEntry puts a message on the path that is not a run's.
func (s *State) addEntry(id string, m schemas.Message) {
	s.Messages = append(s.Messages, Entry{ID: id, Message: schemas.AnyMessage{Message: m}})
}
