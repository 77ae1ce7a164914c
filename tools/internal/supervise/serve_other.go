//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
)

func program() (string, error) { return os.Executable() }

// adoptOrphans does nothing: orphans are the first process's here.
func adoptOrphans() error { return nil }

// killAll kills the groups of the commands that have not ended, and reports whether there were any.
func (s *server) killAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid := range s.commands {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // fails only if nobody is left
	}
	return len(s.commands) > 0
}
