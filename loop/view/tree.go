package view

import (
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Tree folds a log to the entries of the session's tree, from the beginning or from a place within the log.
type Tree struct{ tree loop.Tree }

// NewTree returns a fold that continues from a place ([Tree.Place]); two empty strings are the beginning of the log.
func NewTree(leaf, before string) *Tree { return &Tree{loop.Tree{Leaf: leaf, Before: before}} }

// Place returns what a later fold needs to continue after the events that this one has folded.
func (t *Tree) Place() (leaf, before string) { return t.tree.Leaf, t.tree.Before }

// Apply folds the next event and returns the entries that it adds, without their labels.
func (t *Tree) Apply(e schemas.Event) (entries []schemas.TreeEntry) {
	for _, n := range t.tree.Apply(e) {
		entry := schemas.TreeEntry{
			ID: n.ID, Parent: n.Parent, Seq: n.Seq, Type: n.Type, CustomType: cut(n.CustomType, maxInput), Time: e.Time.UTC(),
		}
		if n.Message != nil {
			entry.Role, entry.Text = n.Message.MessageRole(), cut(firstLine(n.Message), maxInput)
		}
		entries = append(entries, entry)
	}
	return entries
}

// firstLine returns the first line of a message's text.
func firstLine(m schemas.Message) string {
	var text string
	switch m := m.(type) {
	case *schemas.UserMessage:
		text = m.Content.JoinText()
	case *schemas.AssistantMessage:
		text = m.Content.JoinText()
	case *schemas.ToolResultMessage:
		text = m.Content.JoinText()
	case *schemas.CustomMessage:
		var says struct {
			Content schemas.Contents `json:"content"`
			Summary string           `json:"summary"`
		}
		_ = json.Unmarshal(m.Raw, &says) // a message without a text is listed without one
		text = says.Summary + says.Content.JoinText()
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return text
}

// Label returns the label of an entry, "" for none.
func (v *View) Label(id string) string { return v.state.Labels[id] }
