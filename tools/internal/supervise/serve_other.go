//go:build unix && !linux

package supervise

import "os"

func program() (string, error) { return os.Executable() }

// adoptOrphans does nothing: on this system orphans always become children of process 1.
func adoptOrphans() error { return nil }

// killAll kills the groups of the commands that have not ended, and reports whether there were any.
func (s *server) killAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid := range s.commands {
		killGroup(pid)
	}
	return len(s.commands) > 0
}
