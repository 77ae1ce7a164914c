package bash

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

const (
	spillPrefix = "bash-"
	spillSuffix = ".log"
	spillRandom = 8 // bytes
)

// SpillPattern returns a pattern for the files that contain long outputs, if TempDir is dir (see [SpillDir]). The
// read tool should be allowed to read them: see workspace.Options.Files.
func SpillPattern(dir string) string {
	return filepath.Join(dir, spillPrefix+strings.Repeat("[0-9a-f]", 2*spillRandom)+spillSuffix)
}

// A spill is a file that is created at the first write. It keeps the first error. After an error, or when it is full,
// it ignores further writes.
type spill struct {
	attic *attic
	path  string
	file  *os.File
	size  int64
	room  int64 // the size that it may have without asking the attic
	full  bool  // there was more to write than it may have
	err   error
}

func (s *spill) write(p []byte) {
	if len(p) > 0 && s.err == nil && s.path == "" {
		s.create()
	}
	for len(p) > 0 && s.err == nil && !s.full {
		if s.size == s.room {
			s.room = s.attic.grow(s.path)
		}
		if s.full = s.size == s.room; s.full {
			return
		}
		var n int
		n, s.err = s.file.Write(p[:min(int64(len(p)), s.room-s.size)])
		s.size, p = s.size+int64(n), p[n:]
	}
}

func (s *spill) create() {
	file, room, err := s.attic.create()
	if s.err = err; err == nil {
		s.file, s.path, s.room = file, file.Name(), room
	}
}

func (s *spill) close() {
	if s.file == nil {
		return
	}
	if err := s.file.Close(); err != nil && s.err == nil {
		s.err = err
	}
	s.file = nil
	s.attic.release(s.path)
}

func spillName() string {
	var b [spillRandom]byte
	_, _ = rand.Read(b[:]) // never fails
	return spillPrefix + hex.EncodeToString(b[:]) + spillSuffix
}
