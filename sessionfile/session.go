package sessionfile

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// ErrNotFound is wrapped by the error of an unknown entry.
var ErrNotFound = errors.New("not found")

// entryError names the unknown entry, in pi's words.
func entryError(id string) error { return fmt.Errorf("Entry %s %w", id, ErrNotFound) }

// Options configure a new session.
type Options struct {
	// CWD is the working directory of the session.
	CWD string
	// Dir is the directory of its file; "" keeps the session in memory.
	Dir string
	// ID is the session's id; "" generates one. ParentSession is the file of which it is a copy, "" for none.
	ID, ParentSession string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// A Session is a tree of entries and a leaf, whose child the next entry will be.
type Session struct {
	now     func() time.Time
	cwd     string
	lines   []*Entry // the header first
	byID    map[string]*Entry
	order   []string        // ids, each once, in the order of the file
	cut     map[string]bool // entries at which cycles end
	labels  labels
	leaf    string
	replied bool // there is an assistant's message
	file    file
}

// New returns an empty session. It writes nothing.
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

// FromEntries returns a session in memory from the lines of a file of version 3, header first. The leaf is the last
// entry.
func FromEntries(lines []*Entry) *Session {
	s := &Session{now: time.Now}
	s.load(lines)
	if len(lines) > 0 {
		s.cwd = lines[0].Text("cwd")
	}
	return s
}

// load adds and indexes the entries.
func (s *Session) load(lines []*Entry) {
	s.lines, s.byID, s.order, s.leaf, s.replied = lines, map[string]*Entry{}, nil, "", false
	s.labels = labels{by: map[string]placed{}}
	for _, e := range lines {
		if e.Type != TypeSession {
			s.index(e)
		}
	}
	s.cut = cutCycles(s.byID, s.order)
}

// index adds one entry, which becomes the leaf.
func (s *Session) index(e *Entry) {
	if s.byID[e.ID] == nil {
		s.order = append(s.order, e.ID)
	}
	s.byID[e.ID], s.leaf = e, e.ID
	s.replied = s.replied || e.Role() == "assistant"
	if e.Type == TypeLabel {
		s.labels.apply(e)
	}
}

// Header returns the session's header.
func (s *Session) Header() *Entry {
	for _, e := range s.lines {
		if e.Type == TypeSession {
			return e
		}
	}
	return nil
}

// Entries returns all entries, in the order of the file.
func (s *Session) Entries() []*Entry {
	list := make([]*Entry, 0, len(s.lines))
	for _, e := range s.lines {
		if e.Type != TypeSession {
			list = append(list, e)
		}
	}
	return list
}

// Entry returns the entry with an id, nil if there is none.
func (s *Session) Entry(id string) *Entry { return s.byID[id] }

// Leaf returns the id of the entry whose child the next entry will be; "" is before the first.
func (s *Session) Leaf() string { return s.leaf }

// CWD returns the working directory of the session.
func (s *Session) CWD() string { return s.cwd }

// Name returns the name of the last session_info; "" if there is none.
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
