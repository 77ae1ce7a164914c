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

// stderr logs the standard error of a process line by line, at level debug, and keeps the end of it. It is safe for
// concurrent use.
type stderr struct {
	log    *slog.Logger
	secret redactor

	mu   sync.Mutex
	line []byte // the start of the line that has not ended yet
	skip bool   // the line was logged, and its rest is not
	kept []byte // with room for a secret that begins before what is shown
}

// Write never fails, because its log must not stop a process.
func (s *stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, p...)
	if over := len(s.kept) - keptWords - s.secret.longest(); over > 0 {
		s.kept = append(s.kept[:0], s.kept[over:]...)
	}
	s.line = append(s.line, p...)
	for {
		line, rest, ended := bytes.Cut(s.line, []byte("\n"))
		if !ended && len(line) < maxLine+s.secret.longest() {
			return len(p), nil
		}
		if !s.skip {
			s.log.Debug("MCP server says", "line", s.secret.head(string(line), maxLine))
		}
		s.line, s.skip = append(s.line[:0], rest...), !ended
	}
}

// last returns the end of the output, to be appended to an error text.
func (s *stderr) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	words := strings.TrimSpace(strings.ToValidUTF8(s.secret.tail(string(s.kept), keptWords), ""))
	if words == "" {
		return ""
	}
	return "; it said last: " + words
}
