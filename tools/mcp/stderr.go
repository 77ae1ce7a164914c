package mcp

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

const (
	keptWords = 2 << 10 // bytes of a process's standard error that an error quotes
	maxLine   = 4 << 10 // bytes of a line of it that is logged
)

// stderr logs what a process says there, line by line and for debugging only, and keeps the end of it. It is safe for
// concurrent use.
type stderr struct {
	log    *slog.Logger
	secret redactor

	mu   sync.Mutex
	line []byte // the one that has not ended yet
	kept []byte
}

// Write never fails: a process is not to be stopped by its log.
func (s *stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, p...)
	if over := len(s.kept) - keptWords; over > 0 {
		s.kept = append(s.kept[:0], s.kept[over:]...)
	}
	s.line = append(s.line, p...)
	for {
		line, rest, ended := bytes.Cut(s.line, []byte("\n"))
		if !ended && len(line) < maxLine {
			return len(p), nil
		}
		s.log.Debug("MCP server says", "line", s.secret.text(string(line[:min(len(line), maxLine)])))
		s.line = append(s.line[:0], rest...)
	}
}

// last is the end of what was said, for the end of an error text.
func (s *stderr) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	words := strings.TrimSpace(strings.ToValidUTF8(string(s.kept), ""))
	if words == "" {
		return ""
	}
	return "; it said last: " + words
}
