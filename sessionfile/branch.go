package sessionfile

import (
	"encoding/json"
	"errors"
	"strings"
)

// ErrFork is the error of a fork before an entry that does not exist or is not a user's message.
//
//lint:ignore ST1005 the text is pi's
var ErrFork = errors.New("Invalid entry ID for forking")

// Branch moves the leaf to an entry. The move is not stored: the leaf of an opened file is its last entry.
func (s *Session) Branch(id string) error {
	if s.byID[id] == nil {
		return entryError(id)
	}
	s.leaf = id
	return nil
}

// Reset moves the leaf before the first entry: the next entry is a root.
func (s *Session) Reset() { s.leaf = "" }

// BranchWithSummary moves the leaf to an entry, or before the first, and adds the summary of a branch there.
func (s *Session) BranchWithSummary(id string, sum Summary) (string, error) {
	if id != "" && s.byID[id] == nil {
		return "", entryError(id)
	}
	before := s.leaf
	s.leaf = id
	from := id
	if from == "" {
		from = "root"
	}
	made, err := s.append(TypeBranchSummary, func(o *object) {
		o.add("fromId", from)
		o.add("summary", sum.Text)
		sum.add(o)
	})
	if err != nil {
		s.leaf = before
	}
	return made, err
}

// Target returns where a navigation to an entry moves the leaf: to the entry itself, or, for a user's message or a
// custom_message, to its parent. Text is the text of such a message, for the user to edit; nil for other entries.
func (s *Session) Target(id string) (leaf string, text *string, err error) {
	e := s.byID[id]
	if e == nil {
		return "", nil, entryError(id)
	}
	var content json.RawMessage
	switch {
	case e.Role() == "user":
		content = e.message().get("content")
	case e.Type == TypeCustomMessage:
		content = e.Get("content")
	default:
		return id, nil, nil
	}
	joined := contentText(content, "")
	if p := s.Parent(e); p != nil {
		leaf = p.ID
	}
	return leaf, &joined, nil
}

// contentText joins the text blocks of a content, which may itself be a text.
func contentText(content json.RawMessage, between string) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []json.RawMessage
	_ = json.Unmarshal(content, &blocks)
	var texts []string
	for _, raw := range blocks {
		o, _ := parseObject(raw)
		if kind, _ := o.text("type"); kind == "text" {
			t, _ := o.text("text")
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, between)
}

// Extract returns a new session in the same directory with the path to an entry and the labels of the entries on it.
// Its header names this session's file as the parent. Label entries are removed from the path and added again at its
// end.
func (s *Session) Extract(id string) (*Session, error) {
	path := s.Path(id)
	if len(path) == 0 {
		return nil, entryError(id)
	}
	var entries []*Entry
	parent, taken := "", map[string]bool{}
	for _, e := range path {
		if e.Type == TypeLabel {
			continue
		}
		if e.Parent != parent && len(entries) > 0 {
			e = e.with(parent)
		}
		entries = append(entries, e)
		parent = e.ID
		taken[parent] = true
	}
	for _, l := range s.Labels() {
		if !taken[l.Target] {
			continue
		}
		e := newEntry(TypeLabel, newID(func(id string) bool { return taken[id] }), parent, l.Timestamp)
		e.members.add("targetId", l.Target)
		e.members.add("label", l.Label)
		entries = append(entries, e)
		parent = e.ID
		taken[parent] = true
	}
	return s.copy(entries)
}

// Next returns an empty session in the same directory, with the same working directory.
func (s *Session) Next(id, parentSession string) *Session {
	return New(Options{CWD: s.cwd, Dir: s.file.dir, ID: id, ParentSession: parentSession, Now: s.now})
}

// copy returns a new session with these entries. It is written if it has an assistant's message.
func (s *Session) copy(entries []*Entry) (*Session, error) {
	c := &Session{now: s.now, cwd: s.cwd}
	c.begin(Options{CWD: s.cwd, Dir: s.file.dir, ParentSession: s.file.path}, entries)
	return c, c.flush()
}

// Position is where a session is forked, relative to an entry.
type Position string

// The positions: before a user's message, which the user then edits, or after any entry.
const (
	Before Position = "before"
	At     Position = "at"
)

// Fork returns a copy of the session up to an entry, and the text of the user's message before which it was forked, nil
// if there is none. The error is [ErrFork] if the entry does not exist or is not a user's message.
func (s *Session) Fork(id string, at Position) (*Session, *string, error) {
	e := s.byID[id]
	switch {
	case e == nil, at != At && e.Role() != "user":
		return nil, nil, ErrFork
	case at == At:
		c, err := s.Extract(id)
		return c, nil, err
	}
	text := contentText(e.message().get("content"), "")
	if parent := s.Parent(e); parent != nil {
		c, err := s.Extract(parent.ID)
		return c, &text, err
	}
	return s.Next("", s.file.path), &text, nil
}
