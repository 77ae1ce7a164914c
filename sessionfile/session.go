package sessionfile

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// ErrNotFound is wrapped where an entry is asked for that is not there.
var ErrNotFound = errors.New("not found")

// entryError names the entry that is not there, in pi's words.
func entryError(id string) error { return fmt.Errorf("Entry %s %w", id, ErrNotFound) }

// Options say what a new session is.
type Options struct {
	// CWD is the directory that its work is about.
	CWD string
	// Dir is the directory of its file; "" keeps it in memory only.
	Dir string
	// ID is the session's; "" makes one. ParentSession is the file that it is a copy of, "" for none.
	ID, ParentSession string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// A Session is a tree of entries and a leaf, where the next entry will hang.
type Session struct {
	now    func() time.Time
	cwd    string
	lines  []*Entry // the header first
	byID   map[string]*Entry
	order  []string        // ids, each once, as they first came
	cut    map[string]bool // entries whose parents would lead back to them
	labels labels
	leaf   string
	said   bool // a model has said something
	file   file
}

// New makes an empty session. Nothing is written yet.
func New(o Options) *Session {
	s := &Session{now: o.Now, cwd: o.CWD}
	if s.now == nil {
		s.now = time.Now
	}
	s.begin(o, nil)
	return s
}

// begin makes the session a new one with these entries.
func (s *Session) begin(o Options, entries []*Entry) {
	now := s.now()
	if o.ID == "" {
		o.ID = newSessionID(now)
	}
	header := newHeader(o, Stamp(now))
	s.file = file{dir: o.Dir}
	if o.Dir != "" {
		s.file.path = filepath.Join(o.Dir, fileName(Stamp(now), o.ID))
	}
	s.load(append([]*Entry{header}, entries...))
}

func newHeader(o Options, timestamp string) *Entry {
	h := &Entry{}
	h.members.add("type", TypeSession)
	h.members.add("version", Version)
	h.members.add("id", o.ID)
	h.members.add("timestamp", timestamp)
	h.members.add("cwd", o.CWD)
	if o.ParentSession != "" {
		h.members.add("parentSession", o.ParentSession)
	}
	h.read()
	return h
}

// FromEntries makes a session in memory from the lines of a file of version 3, header first. The leaf is the last
// entry.
func FromEntries(lines []*Entry) *Session {
	s := &Session{now: time.Now}
	s.load(lines)
	if len(lines) > 0 {
		s.cwd = lines[0].Text("cwd")
	}
	return s
}

// load takes the entries in and indexes them.
func (s *Session) load(lines []*Entry) {
	s.lines, s.byID, s.order, s.leaf, s.said = lines, map[string]*Entry{}, nil, "", false
	s.labels = labels{by: map[string]Label{}}
	for _, e := range lines {
		if e.Type != TypeSession {
			s.index(e)
		}
	}
	s.cut = cutCycles(s.byID, s.order)
}

// index takes one entry in; it becomes the leaf.
func (s *Session) index(e *Entry) {
	if s.byID[e.ID] == nil {
		s.order = append(s.order, e.ID)
	}
	s.byID[e.ID], s.leaf = e, e.ID
	s.said = s.said || e.Role() == "assistant"
	if e.Type == TypeLabel {
		s.labels.apply(e)
	}
}

// Header is the session's header.
func (s *Session) Header() *Entry {
	for _, e := range s.lines {
		if e.Type == TypeSession {
			return e
		}
	}
	return nil
}

// Entries are all entries, in the order of the file.
func (s *Session) Entries() []*Entry {
	list := make([]*Entry, 0, len(s.lines))
	for _, e := range s.lines {
		if e.Type != TypeSession {
			list = append(list, e)
		}
	}
	return list
}

// Entry returns an entry, nil if there is none with that id.
func (s *Session) Entry(id string) *Entry { return s.byID[id] }

// Leaf is the id of the entry where the next one will hang; "" is before everything.
func (s *Session) Leaf() string { return s.leaf }

// CWD is the directory that the session's work is about.
func (s *Session) CWD() string { return s.cwd }

// Name is what the last session_info says; "" for none.
func (s *Session) Name() string {
	for i := len(s.lines) - 1; i >= 0; i-- {
		if s.lines[i].Type == TypeName {
			return trim(s.lines[i].Text("name"))
		}
	}
	return ""
}

// WriteLines writes the session as a file.
func (s *Session) WriteLines(w io.Writer) error {
	for _, e := range s.lines {
		if _, err := w.Write(append(e.members.line(), '\n')); err != nil {
			return err
		}
	}
	return nil
}
