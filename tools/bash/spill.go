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

// A spill is a file that is created at the first write. It keeps the first error. After an error, or when it has
// reached its largest size, it ignores further writes.
type spill struct {
	attic *attic
	path  string
	file  *os.File
	size  int64
	err   error
}

func (s *spill) write(p []byte) {
	if s.err != nil || len(p) == 0 {
		return
	}
	if s.file == nil && s.path == "" {
		s.file, s.err = s.attic.create()
		if s.err != nil {
			s.file = nil
			return
		}
		s.path = s.file.Name()
	}
	n, err := s.file.Write(p[:min(int64(len(p)), s.attic.most-s.size)])
	s.size, s.err = s.size+int64(n), err
}

func (s *spill) close() {
	if s.file == nil {
		return
	}
	if err := s.file.Close(); err != nil && s.err == nil {
		s.err = err
	}
	s.file = nil
}

func spillName() string {
	var b [spillRandom]byte
	_, _ = rand.Read(b[:]) // never fails
	return spillPrefix + hex.EncodeToString(b[:]) + spillSuffix
}
