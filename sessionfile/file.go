package sessionfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrNoSession is the error of a file that is not empty and has no session. The file is not changed.
var ErrNoSession = errors.New("not a session file: its first line is not a session's header")

// A file is the file of a session. Its zero value is no file.
type file struct {
	dir, path string
	written   int  // number of the session's lines in the file
	open      bool // the file does not end with a newline
}

// File returns the path of the session's file; "" in memory. The file may not exist yet.
func (s *Session) File() string { return s.file.path }

// Open opens a session's file, of any version; it rewrites one of an older version. The leaf is the last entry. Lines
// that are not entries are skipped, and stay in the file unless it is rewritten. An empty file gets a new session; a
// file with other contents is refused with [ErrNoSession].
func Open(path string, now func() time.Time) (*Session, error) {
	if now == nil {
		now = time.Now
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	lines, text, err := read(path)
	if err != nil {
		return nil, err
	}
	s := &Session{now: now}
	at := file{dir: filepath.Dir(path), path: path}
	if lines == nil {
		if s.cwd, err = os.Getwd(); err != nil {
			return nil, err
		}
		s.begin(Options{CWD: s.cwd}, nil)
		s.file = at
		return s, s.rewrite()
	}
	migrated := Migrate(lines)
	lines, _ = sound(lines)
	s.load(lines)
	s.cwd = s.Header().Text("cwd")
	at.written, at.open = len(lines), text[len(text)-1] != '\n'
	s.file = at
	if migrated {
		err = s.rewrite()
	}
	return s, err
}

// read returns a file's lines, none for an empty file. The error is [ErrNoSession] for a file with other contents.
func read(path string) (lines []*Entry, text []byte, err error) {
	text, err = os.ReadFile(path)
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return nil, text, err
	}
	if lines, _ = Parse(text); !isHeader(lines) {
		return nil, text, fmt.Errorf("open %s: %w", path, ErrNoSession)
	}
	return lines, text, nil
}

// write adds an entry to the session and appends it to the file, after the entries that are not written yet. It writes
// nothing before the first assistant's message.
func (s *Session) write(e *Entry) error {
	s.lines = append(s.lines, e)
	replied := s.replied
	s.replied = replied || e.Role() == "assistant"
	err := s.flush()
	if err != nil {
		s.lines, s.replied = s.lines[:len(s.lines)-1], replied
	}
	return err
}

// flush appends the entries that are not in the file yet, once there is an assistant's message. If that fails it
// restores the file.
func (s *Session) flush() error {
	if s.file.path == "" || !s.replied {
		return nil
	}
	var b bytes.Buffer
	if s.file.open {
		b.WriteByte('\n')
	}
	for _, e := range s.lines[s.file.written:] {
		b.Write(e.members.line())
		b.WriteByte('\n')
	}
	f, err := os.OpenFile(s.file.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		if _, err = f.Write(b.Bytes()); err != nil {
			err = errors.Join(err, f.Truncate(info.Size()))
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("append to %s: %w", s.file.path, err)
	}
	s.file.written, s.file.open = len(s.lines), false
	return nil
}

// rewrite replaces the file with the session's lines, in one step.
func (s *Session) rewrite() error {
	mode := os.FileMode(0o600)
	if info, err := os.Stat(s.file.path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(s.file.dir, ".session-*")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, e := range s.lines {
		b.Write(e.members.line())
		b.WriteByte('\n')
	}
	_, err = f.Write(b.Bytes())
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.file.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rewrite %s: %w", s.file.path, err), os.Remove(f.Name()))
	}
	s.file.written, s.file.open = len(s.lines), false
	return nil
}

// ForkFrom copies all entries of a file into a new session in dir, with the working directory cwd. The copy names the
// file as its parent; the file does not change.
func ForkFrom(path, cwd, dir string, now func() time.Time) (*Session, error) {
	lines, _, err := read(path)
	if err != nil && !errors.Is(err, ErrNoSession) && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(lines) == 0 {
		//lint:ignore ST1005 the text is pi's
		return nil, fmt.Errorf("Cannot fork: source session file is empty or invalid: %s", path)
	}
	Migrate(lines)
	lines, _ = sound(lines)
	if now == nil {
		now = time.Now
	}
	c := &Session{now: now, cwd: cwd}
	c.begin(Options{CWD: cwd, Dir: dir, ParentSession: path}, FromEntries(lines).Entries())
	return c, c.rewrite()
}
