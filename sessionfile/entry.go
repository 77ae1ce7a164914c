package sessionfile

import (
	"encoding/json"
	"slices"
	"time"
)

// Version is the version of files that this package writes.
const Version = 3

// A Type is the kind of an entry. Files may have other types than these.
type Type string

// The types of version 3.
const (
	TypeSession       Type = "session" // the header
	TypeMessage       Type = "message"
	TypeThinkingLevel Type = "thinking_level_change"
	TypeModel         Type = "model_change"
	TypeCompaction    Type = "compaction"
	TypeBranchSummary Type = "branch_summary"
	TypeCustom        Type = "custom"
	TypeCustomMessage Type = "custom_message"
	TypeLabel         Type = "label"
	TypeName          Type = "session_info"
)

// An Entry is one line of a file: its header, or an entry of the tree. It does not change once it is in a session.
type Entry struct {
	Type Type
	// ID is the id of the entry, or of the session for the header. Parent is "" for a root.
	ID, Parent string
	// Line is the line of the file, from 1; 0 for an entry that was not read from a file.
	Line    int
	members object
}

// NewEntry parses an entry. It returns an error for JSON that is not an entry of any version.
func NewEntry(text []byte) (*Entry, error) {
	o, err := parseObject(text)
	if err != nil {
		return nil, err
	}
	e := &Entry{members: o}
	e.read()
	return e, nil
}

// newEntry returns an entry of a tree with its base members first. An empty parent is written as null.
func newEntry(kind Type, id, parent, timestamp string) *Entry {
	e := &Entry{}
	e.members.add("type", kind)
	e.members.add("id", id)
	e.members.set("parentId", parentJSON(parent))
	e.members.add("timestamp", timestamp)
	e.read()
	return e
}

func parentJSON(parent string) json.RawMessage {
	if parent == "" {
		return json.RawMessage("null")
	}
	raw, _ := json.Marshal(parent)
	return raw
}

// read sets the fields from the members.
func (e *Entry) read() {
	kind, _ := e.members.text("type")
	e.Type = Type(kind)
	e.ID, _ = e.members.text("id")
	e.Parent, _ = e.members.text("parentId")
}

// with returns a copy with another parent.
func (e *Entry) with(parent string) *Entry {
	c := &Entry{Line: e.Line, members: slices.Clone(e.members)}
	c.members.set("parentId", parentJSON(parent))
	c.read()
	return c
}

// MarshalJSON writes the entry as it is in a file.
func (e *Entry) MarshalJSON() ([]byte, error) { return e.members.MarshalJSON() }

// Get returns a member's JSON, nil if there is none. The caller must not change it.
func (e *Entry) Get(name string) json.RawMessage { return e.members.get(name) }

// Text returns a member that is a text, "" for any other value.
func (e *Entry) Text(name string) string {
	s, _ := e.members.text(name)
	return s
}

// Members returns the names of the entry's members, in order.
func (e *Entry) Members() []string {
	names := make([]string, len(e.members))
	for i, m := range e.members {
		names[i] = m.name
	}
	return names
}

// Time returns the entry's timestamp; ok is false if it has no valid one.
func (e *Entry) Time() (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339Nano, e.Text("timestamp"))
	return t, err == nil
}

// Role returns the role of a message entry's message, "" for other entries.
func (e *Entry) Role() string {
	if e.Type != TypeMessage {
		return ""
	}
	role, _ := e.message().text("role")
	return role
}

// message returns the message of a message entry.
func (e *Entry) message() object {
	o, _ := parseObject(e.Get("message"))
	return o
}
